"""What is asked for, as a schema; and from what a model said to a value that fits it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from reasonbank.errors import InvalidReply
from reasonbank.fence import fixed, prompt
from reasonbank.llm.port import Completion, Message, ModelCall, Schema, system
from reasonbank.model import JSON

MAX_CHARACTERS = 1_000_000


def closed(fields: Mapping[str, JSON], optional: Mapping[str, JSON] | None = None) -> JSON:
    """An object of these fields, in this order, and of no others."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def string(most: int, *, least: int = 1) -> JSON:
    return {"type": "string", "minLength": least, "maxLength": most}


def one_of(values: Iterable[str]) -> JSON:
    return {"type": "string", "enum": [str(value) for value in values]}


def checked(completion: Completion, call: ModelCall) -> Completion:
    """The completion with its value; ``InvalidReply`` if it has none that fits the schema."""
    if call.schema is None:
        return completion
    try:
        value = valid(completion.text, call.schema)
    except InvalidReply as error:
        cut = f" (cut at {call.max_tokens} tokens)" if completion.cut else ""
        raise InvalidReply(
            f"the reply of {completion.model}{cut}: {error}",
            reply=completion.text,
            usage=completion.usage,
        ) from None
    return replace(completion, value=value)


def valid(text: str, schema: Schema) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise InvalidReply(f"has {len(text)} characters, more than {MAX_CHARACTERS}")
    return conforming(_value(text), schema)


def conforming(value: Any, schema: Schema) -> Any:
    from jsonschema.exceptions import best_match

    problem = best_match(_validator(_text(schema)).iter_errors(value))
    if problem is not None:
        # The library quotes the whole value; the end of its sentence says what is wrong.
        message = problem.message if len(problem.message) < 400 else "…" + problem.message[-300:]
        raise InvalidReply(f"does not fit the schema at {problem.json_path}: {message}")
    return value


def _value(text: str) -> Any:
    """The JSON in a text: all of it, or the one object in it, before and after other words.

    A reply may quote what it was asked about, and that may be an answer which somebody else
    would like to see: of two objects nobody can tell which one is the answer.
    """
    text = text.strip()
    start = text.find("{")
    for position in (0, start):
        found = _decoded(text, position)
        if found is None:
            continue
        value, end = found
        if end == len(text):
            return value
        if isinstance(value, dict):
            if _holds_object(text, end):
                raise InvalidReply("has more than one JSON object; one was asked for")
            return value
    raise InvalidReply("is not JSON" if text else "is empty")


def _decoded(text: str, position: int) -> tuple[Any, int] | None:
    if position < 0:
        return None
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def _holds_object(text: str, position: int) -> bool:
    """Whether there is one more; only so many braces are looked at."""
    for _ in range(100):
        position = text.find("{", position)
        if position < 0:
            return False
        if (found := _decoded(text, position)) is not None and found[0]:
            return True
        position += 1
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name stands there twice")
    return value


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once)


def _text(schema: Schema) -> str:
    return json.dumps(schema, sort_keys=True, ensure_ascii=False)


@lru_cache(64)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))


def asking_for(schema: Schema, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with the schema as words, for a server that takes none."""
    request = fixed(
        "Answer with one JSON object and nothing else: no other words, no code fence. "
        "It must be valid by this JSON schema:\n{schema}",
        schema=schema,
    )
    # One system message, in front: some servers refuse a second one.
    if messages and messages[0].role == "system":
        return (system(prompt(messages[0].content, request)), *messages[1:])
    return (system(request), *messages)


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode takes it: every object closed, every property required."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties):
            return False
        return all(map(is_strict, properties.values()))
    return all(map(is_strict, schema.values()))
