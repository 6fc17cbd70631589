"""One memory as one file: what is known of it in front, and its content below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reasonbank.errors import InvalidInput
from reasonbank.fields import from_json
from reasonbank.model import ErrorContext, Memory, Outcome, labels
from reasonbank.store import front_matter

OURS = ("id", "revision")
REQUIRED = ("title", "description", "outcome")
OPTIONAL = ("tags", *labels(), "error_context")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a file says. ``others`` are values that are not ours: they stay in the file."""

    id: str | None
    revision: int | None
    lesson: Mapping[str, Any]
    others: Mapping[str, Any]


def lesson(memory: Memory) -> dict[str, Any]:
    """What may be edited in a file, as plain values."""
    found: dict[str, Any] = {name: str(getattr(memory, name)) for name in REQUIRED}
    found["tags"] = list(memory.tags)
    found |= {name: getattr(memory, name) or "" for name in labels()}
    error = memory.error_context.to_json() if memory.error_context else {}
    found["error_context"] = {name: _plain(text) for name, text in error.items() if text}
    return found | {"content": _plain(memory.content).strip()}


def written(memory: Memory, others: Mapping[str, Any]) -> str:
    told = lesson(memory)
    content = told.pop("content")
    head = {"id": memory.id, "revision": memory.revision}
    head |= {name: value for name, value in told.items() if value}
    return front_matter.joined(head | dict(others), f"\n{content}\n")


def read(text: str) -> Told:
    """The inverse of ``written``; what a file leaves out may be filled in by who wrote it.

    Raises ``ValueError`` with a reason.
    """
    values, body = front_matter.split(text)
    names = {*OURS, *REQUIRED, *OPTIONAL}
    told = {n: v for n, v in front_matter.as_text(text).items() if n in names}
    found: dict[str, Any] = {name: _text(told, name) for name in REQUIRED if told.get(name)}
    found["tags"] = _tags(told.get("tags"))
    found |= {name: _text(told, name) for name in labels()}
    found["error_context"] = _mapping(told.get("error_context"))
    found["content"] = body.strip()
    if not found["content"]:
        raise ValueError("it has no text below its front matter")
    revision = told.get("revision")
    id = told.get("id")
    return Told(
        id=id.strip() if isinstance(id, str) and id.strip() else None,
        revision=int(revision) if isinstance(revision, str) and revision.isdecimal() else None,
        lesson=found,
        others={name: value for name, value in values.items() if name not in names},
    )


def changes(edited: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a file as a memory holds them. Raises ``InvalidInput``."""
    found: dict[str, Any] = dict(edited)
    if "outcome" in found:
        found["outcome"] = _outcome(found["outcome"])
    if "tags" in found:
        found["tags"] = tuple(found["tags"])
    if "error_context" in found:
        error = found["error_context"]
        found["error_context"] = from_json(ErrorContext, error) if error else None
    return found | {name: found[name] or None for name in labels() if name in found}


def _outcome(value: str) -> Outcome:
    try:
        return Outcome(value)
    except ValueError:
        raise InvalidInput(
            "outcome", f"must be one of {', '.join(Outcome)} (got {value!r})"
        ) from None


def _plain(text: str) -> str:
    """A file cannot tell one end of a line from another."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"its {name} is not text")
    return value.strip()


def _tags(value: Any) -> list[str]:
    """A list, or one text with commas."""
    found = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("its tags are not a list of texts")
    return list(dict.fromkeys(tag.strip() for tag in found if tag.strip()))


def _mapping(value: Any) -> dict[str, str]:
    if not value:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError("its error_context is not a list of names with texts")
    return {name: text for name, text in value.items() if text}
