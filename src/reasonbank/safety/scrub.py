"""Secrets, taken out of whatever is stored or sent to a model.

`scrub` puts a typed placeholder such as ``[secret:github-token]`` in the place of each one. It
errs on the side of leaving text alone: commit hashes, UUIDs, checksums, images, public keys and
placeholders stay. Matching takes linear time, whatever the text (RE2).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from reasonbank.model import ErrorContext, Memory, Trace, texts
from reasonbank.safety.secret_kinds import NAMED, TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubbedText:
    """``found`` counts what was taken out, by kind."""

    text: str
    found: Mapping[str, int] = field(default_factory=dict)


def scrub(text: str) -> ScrubbedText:
    """``text`` without its secrets; scrubbing it again changes nothing."""
    raw = text.encode("utf-8", "surrogatepass")
    found: Counter[str] = Counter()
    # A secret may hide behind another one; each round leaves fewer, and the last finds none.
    while (cleaner := _cleaned(raw, found)) != raw:
        raw = cleaner
    return ScrubbedText(text=raw.decode("utf-8", "surrogatepass") if found else text, found=found)


def _cleaned(raw: bytes, found: Counter[str]) -> bytes:
    rules = _rules()
    for number in rules.Match(raw, potential=True) or ():
        kind, guard = KINDS[number][0], _GUARDS.get(KINDS[number][0], _token)
        pattern = rules.re(number)
        groups = pattern.groupindex
        secret = groups.get("secret", min(1, pattern.groups))
        parts, end = [], 0
        for match in pattern.finditer(raw):
            start, stop = match.span(secret)
            name = match[groups["name"]].decode() if "name" in groups else ""
            if not guard(name, raw[start:stop].decode(errors="replace")):
                continue
            if not _within_base64(raw, start):
                parts += [raw[end:start], f"[secret:{kind}]".encode()]
                end = stop
                found[kind] += 1
        if parts:
            raw = b"".join((*parts, raw[end:]))
    return raw


def clean(text: str) -> str:
    return scrub(text).text


def clean_memory(memory: Memory) -> Memory:
    """The memory without secrets; the very same object if it has none."""
    error = memory.error_context
    told = [getattr(memory, name) for name in texts()] + list(memory.tags)
    told += [getattr(error, f.name) for f in fields(error)] if error else []
    if not scrub("\n".join(text for text in told if text)).found:
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
    return _clean_json(value) if scrub("\n".join(_texts(value))).found else value


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


# What decides in the end whether a match is a secret.

_PLACEHOLDER = re.compile(
    r"(?i)(?:^|[^a-z])your|placeholder|change.?me|redacted|\bremoved|masked|x{5,}|\*{3,}|\.{3}|…|\bdummy|"
    r"\[secret:|(.)\1{7}"
)
_NO_VALUE = re.compile(
    r"(?i)^[$<{@/~.&\[(\\|-]|^%[\w({]|^\*\*|^(?:null|none|true|false|undefined)\b|[(){}$]|://|environ|"
    r"getenv|\benv\.|secrets?\.|example|todo|insert|^(?:my|the|some|an?)[_-]|\bconfig\b|"
    r"[^\x00-\x7f]|^\w+\[|^\w+\.\w+\.\w+$|^[a-z-]+\]"
)
_SLUG = re.compile(r"[A-Za-z]?[a-z]*(?:[-_./][a-z]{2,}\d{0,2}|[-_./]\d{1,4}){2,}")
_IDENTIFIER = re.compile(r"[A-Za-z_]+(?:[.:_-][A-Za-z_]+\d{0,2})*\d{0,1}")
_HARMLESS_NAME = re.compile(
    r"(?i)public|trial|csrf|(?:count|limit|url|uri|name|type|length|size|expir\w*|ttl|izers?|"
    r"tokens|path|file|format|"
    r"policy|version|field|env|var|budget|usage|cost|rotation|manager|provider|header|(?:^|[_.-])id|"
    r"hint|class|method|prefix|suffix|store|scope|ized|ization|sha256|_per_\w+|index|position)$"
)
_BASE64_RUN = re.compile(rb"[A-Za-z0-9+/]{32}$")


def _token(name: str, secret: str) -> bool:
    secret = secret[:40]  # What follows may be no part of it.
    most = max(Counter(secret).values()) / len(secret)
    return not _PLACEHOLDER.search(secret) and most < 0.4 and not _SLUG.fullmatch(secret)


def _block(name: str, secret: str) -> bool:
    return len(set(secret)) > 20 and "[secret:" not in secret


def _password(name: str, secret: str) -> bool:
    """Where the place alone says that it is a password, few things are none."""
    if _PLACEHOLDER.search(secret) or re.search(r"^[$<{]|[{}<>]|^%\w+%$|^\*+$", secret):
        return False
    return secret.lower() not in {
        "password", "passwd", "pass", "secret", "token", "pwd", "pw", "user", "username",
    }  # fmt: skip


def _value(name: str, secret: str) -> bool:
    secret = secret.rstrip(").,]};:\\")
    if _HARMLESS_NAME.search(name) or _PLACEHOLDER.search(secret) or _NO_VALUE.search(secret):
        return False
    has_digit = any(c.isdigit() for c in secret)
    has_letter = any(c.isalpha() for c in secret)
    if re.search(r"(?i)pass(?:word|wd|code|phrase)|pwd", name):
        if secret.isdigit():
            return len(secret) >= 6
        mixed = has_digit or (re.search(r"[!@#%^&*?]", secret) and secret.lower() != secret)
        return bool(len(secret) >= 6 and has_letter and mixed)
    return bool(
        len(secret) >= 12
        and has_letter
        and _bits_a_character(secret) >= (3.0 if has_digit else 4.2)
        and not _SLUG.fullmatch(secret)
        and not _IDENTIFIER.fullmatch(secret)
    )


def _word(name: str, secret: str) -> bool:
    return _value("password", secret)


def _header(name: str, secret: str) -> bool:
    return _value("", secret) or (_token("", secret) and len(secret) >= 40)


def _bits_a_character(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _within_base64(raw: bytes, start: int) -> bool:
    """An image may hold anything: a match amid a long run of its letters is chance."""
    return raw[start - 1 : start] in (b"+", b"/") and bool(
        _BASE64_RUN.search(raw[max(0, start - 33) : start])
    )


_GUARDS: Mapping[str, Callable[[str, str], bool]] = {
    "private-key": _block, "putty-key": _block, "secret": _value, "spoken-password": _word,
    "password-argument": _word,
    "url-password": _password, "connection-password": _password, "netrc-password": _password,
    "password-option": _password, "authorization": _header, "api-key-header": _header,
    "session-cookie": _header, "twitter-bearer": _block,
}  # fmt: skip
KINDS = (*TOKENS, *NAMED)
# A line break inside of JSON is written as a letter, which would hide where a word begins.
_WORD_BEGINS = r"(?:\b|\\[nrt])"


@cache
def _rules() -> Any:
    """All patterns; asked with ``potential``, it says in one pass which could match at all."""
    import re2

    rules = re2.Filter()
    for _, pattern in KINDS:
        rules.Add(_also_in_json(pattern))
    rules.Compile()
    return rules


def _also_in_json(pattern: str) -> str:
    if pattern.startswith(r"\b") and "(" not in pattern.replace("(?", ""):
        pattern = rf"\b({pattern[2:]})"
    if pattern.startswith((r"\b", r"(?i:\b")):
        return pattern.replace(r"\b", _WORD_BEGINS, 1)
    return pattern
