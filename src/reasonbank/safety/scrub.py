"""Secrets, taken out of whatever is stored or sent to a model.

`scrub` puts a typed placeholder such as ``[secret:github-token]`` in the place of each one. It
errs on the side of leaving text alone: commit hashes, UUIDs, checksums, images, public keys and
placeholders stay. Matching takes linear time, whatever the text (RE2).
"""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from reasonbank.errors import InvalidInput, ReasonBankError
from reasonbank.fields import LIMITS
from reasonbank.model import ErrorContext, Memory, Trace, texts
from reasonbank.safety.assignments import Found, assigned
from reasonbank.safety.secret_kinds import PLACED, TOKENS
from reasonbank.safety.shapes import blocks, encoded, manifests, shaped, urls

KINDS = frozenset(kind for kind, _ in (*TOKENS, *PLACED)) | {
    "private-key", "putty-key", "url-password", "kubernetes-secret", "secret", "spoken-password",
    "encoded-secret",
}  # fmt: skip
E = TypeVar("E", bound=ReasonBankError)
MOST_ROUNDS = 4
# In this order: what has a shape of its own is named by it, whatever it is assigned to.
FINDERS: tuple[Callable[[bytes], Iterator[Found]], ...] = (
    blocks, shaped, urls, manifests, assigned, encoded,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubbedText:
    """``found`` counts what was taken out, by kind."""

    text: str
    found: Mapping[str, int] = field(default_factory=dict)


def scrub(text: str) -> ScrubbedText:
    """``text`` without its secrets; scrubbing it again changes nothing."""
    raw = text.encode("utf-8", "surrogatepass")
    found: Counter[str] = Counter()
    # A secret may hide behind another one. How often is bounded, for whoever nests them.
    for _ in range(MOST_ROUNDS):
        cleaner = _cleaned(raw, found)
        if cleaner is raw:
            break
        raw = cleaner
    return ScrubbedText(text=raw.decode("utf-8", "surrogatepass") if found else text, found=found)


def _cleaned(raw: bytes, found: Counter[str]) -> bytes:
    for finder in FINDERS:
        parts, end = [], 0
        for start, stop, kind in finder(raw):
            if start >= end:
                parts += [raw[end:start], f"[secret:{kind}]".encode()]
                end = stop
                found[kind] += 1
        if parts:
            raw = b"".join((*parts, raw[end:]))
    return raw


def has_secret(text: str) -> bool:
    raw = text.encode("utf-8", "surrogatepass")
    return any(next(iter(finder(raw)), None) is not None for finder in FINDERS)


def clean(text: str) -> str:
    return scrub(text).text


# Too short to be a secret, and no mark that joins a name to a value.
_HARMLESS_NAME = re.compile(r"[\w-]{1,16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def clean_name(name: str, key: str, most: int = 4_096) -> str:
    """A name that things are found by: the same name gives the same, another one another.

    What stands for a secret is followed by a few digits of a hash, keyed by ``key``.
    """
    if _HARMLESS_NAME(name) or not (scrubbed := scrub(name)).found:
        return name
    mark = hmac.digest(key.encode(), name.encode("utf-8", "surrogatepass"), "sha256").hex()[:6]
    return f"{scrubbed.text[: most - 8]} #{mark}"


def hushed(error: E) -> E:
    """The error itself, without secrets in what it quotes."""
    error.args = tuple(clean(a) if isinstance(a, str) else a for a in error.args)
    if isinstance(error, InvalidInput):
        error.field, error.problem = clean(error.field), clean(error.problem)
    return error


def clean_memory(memory: Memory, key: str = "") -> Memory:
    """The memory without secrets; the very same object if it has none.

    ``key`` is that of ``clean_name``, for the session it came from.
    """
    if memory.source_session:
        named = clean_name(memory.source_session, key, LIMITS.label)
        if named != memory.source_session:
            memory = replace(memory, source_session=named)
    error = memory.error_context
    told = [getattr(memory, name) for name in texts()] + list(memory.tags)
    told += [getattr(error, f.name) for f in fields(error)] if error else []
    if not has_secret("\n".join(text for text in told if text)):
        return memory
    changes: dict[str, Any] = {n: clean(text) for n in texts() if (text := getattr(memory, n))}
    changes["tags"] = tuple(dict.fromkeys(map(clean, memory.tags)))
    changes["error_context"] = _clean_error(error) if error else None
    return replace(memory, **changes)


def _clean_error(error: ErrorContext) -> ErrorContext:
    texts = {f.name: getattr(error, f.name) for f in fields(error)}
    return ErrorContext(**{name: clean(text) if text else text for name, text in texts.items()})


def clean_trace(trace: Trace) -> Trace:
    """The trace without secrets; the very same object if it has none."""
    told = trace.to_json()
    return trace if (cleaned := clean_json(told)) is told else Trace.from_json(cleaned)


def clean_json(value: Any) -> Any:
    """``value`` without secrets in any of its texts; what is called a password is one."""
    return _clean_json(value) if has_secret("\n".join(_texts(value))) else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from (f"{name} = {item}",) if isinstance(item, str) else _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _clean_json(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return clean(f"{name} = {value}").removeprefix(f"{name} = ") if name else clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _clean_json(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_json(item) for item in value]
    return value
