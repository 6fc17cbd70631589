"""Secrets that are known by their own shape, or by the place where they stand.

Each finder reads bytes and tells where secrets begin and end, and of which kind they are.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from reasonbank.safety.assignments import Found, assigned
from reasonbank.safety.patterns import compile
from reasonbank.safety.secret_kinds import PLACED, TOKENS
from reasonbank.safety.secret_names import (
    Meaning,
    bits,
    has_digit,
    is_password,
    is_placeholder,
    is_token,
    is_value_of,
)

KINDS = (*TOKENS, *PLACED)
_FEWEST_LETTERS = 7
"""Different ones that a token begins with, at the least: what is repeated is none."""
_WINDOW = 1_024
"""How much of a token is read to recognise it; the rest of a longer one goes with it."""

# A line break inside of JSON, or a mark inside of a URL, is written with letters, which would
# hide where a word begins.
_ESCAPED = r"\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u00[0-9a-f]{2}"
_WORD_BEGINS = rf"(?:\b|{_ESCAPED})"
_BEGINS = rf"(?:{_ESCAPED})?"
_MORE = compile(r"[A-Za-z0-9+/=_.~%-]*")
_NO_LETTERS = compile(r"\[[^\]]*\]|\\[bdws]|\(\?[:i]|[()|^?\\]")
_BEFORE_REPETITION = compile(r"^(.*?)(?:\[[^\]]*\]|\\[dswS]|\(\?:[^()]*\)|[A-Z])(?:[*+?]|\{\d)")


class _Kinds(NamedTuple):
    heads: Any
    which: Any
    headed: tuple[int, ...]
    patterns: tuple[Any, ...]


@cache
def _kinds() -> _Kinds:
    """One pattern finds where most secrets may begin, a set tells which they may be.

    The few that begin like any word are looked for one by one: together they would make more
    states than can be kept.
    """
    import re2

    written = [_anywhere(pattern) for _, pattern in KINDS]
    heads = [_head(pattern) for pattern in written]
    headed = tuple(n for n, head in enumerate(heads) if head)
    options = re2.Options()
    options.never_capture = True
    which = re2.Set.MatchSet(options)
    for number in headed:
        which.Add(heads[number])
    which.Compile()
    union = re2.compile("|".join(f"(?:{head})" for head in dict.fromkeys(heads) if head), options)
    return _Kinds(union, which, headed, tuple(re2.compile(pattern) for pattern in written))


def _anywhere(pattern: str) -> str:
    word = pattern.startswith(r"\b")
    pattern = pattern.removeprefix(r"\b")
    if "(" not in pattern.replace("(?", "").replace(r"\(", ""):
        pattern = f"({pattern})"
    return (_WORD_BEGINS if word else _BEGINS) + pattern


def _head(pattern: str) -> str:
    """What a pattern begins with, up to its first repetition; nothing if that says too little."""
    lead = _WORD_BEGINS if pattern.startswith(_WORD_BEGINS) else _BEGINS
    rest = pattern[len(lead) :]
    # The group around a whole pattern, or around its words of any case, may be cut open.
    outer = next((o for o in ("(?i:", "(?m:", "(") if rest.startswith(o)), "")
    if outer and (outer != "(" or rest[1:2] != "?") and not _closed(rest.partition("{")[0]):
        rest = rest[len(outer) :]
    else:
        outer = ""
    found = _BEFORE_REPETITION.match(rest)
    begin = _closed(found[1] if found else rest)
    says = _NO_LETTERS.sub("", begin)
    if "|" in _outside(begin) or len(says) < 3:
        return ""
    return f"{lead}{outer}{begin}{')' if outer else ''}"


def _closed(pattern: str) -> str:
    """As much of the beginning of a pattern as leaves no group open."""
    depth, whole = 0, 0
    for at, letter in enumerate(pattern):
        if pattern[at - 1 : at] != "\\" or pattern[at - 2 : at - 1] == "\\":
            depth += (letter == "(") - (letter == ")")
        if depth == 0:
            whole = at + 1
    return pattern[:whole]


def _outside(pattern: str) -> str:
    depth, kept = 0, []
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            kept.append(letter)
    return "".join(kept)


def shaped(raw: bytes) -> Iterator[Found]:
    kinds = _kinds()
    end = 0
    for start, number in _candidates(raw, kinds):
        if start >= end and (found := _shaped_at(raw, start, number, kinds.patterns[number])):
            yield found
            end = found[1]


def _candidates(raw: bytes, kinds: _Kinds) -> list[tuple[int, int]]:
    found = []
    for head in kinds.heads.finditer(raw):
        start = head.start()
        if len(set(raw[start : start + 24])) < _FEWEST_LETTERS:
            continue
        places = kinds.which.Match(raw[start : start + 100]) or ()
        found += [(start, kinds.headed[place]) for place in places]
    for number in set(range(len(KINDS))).difference(kinds.headed):
        found += [(match.start(), number) for match in kinds.patterns[number].finditer(raw)]
    return sorted(found)


def _shaped_at(raw: bytes, at: int, number: int, pattern: Any) -> Found | None:
    match = pattern.match(raw, at, at + _WINDOW)
    if match is None:
        return None
    kind = KINDS[number][0]
    start, stop = match.span(min(1, pattern.groups))
    guard = _GUARDS.get(kind, is_token)
    if not guard(raw[start:stop].decode("utf-8", "replace")) or _within_base64(raw, start):
        return None
    if stop == at + _WINDOW:
        stop = _MORE.on_bytes.match(raw, stop).end()
    return start, stop, kind


_BASE64_RUN = compile(r"[A-Za-z0-9+/]{32}$")


def _within_base64(raw: bytes, start: int) -> bool:
    """An image may hold anything: a match amid a long run of its letters is chance."""
    if raw[start - 1 : start] not in (b"+", b"/"):
        return False
    return bool(_BASE64_RUN.on_bytes.search(raw[max(0, start - 33) : start]))


def _is_header(value: str) -> bool:
    return is_value_of(Meaning.SECRET, value, quoted=True) or (is_token(value) and len(value) >= 40)


def _is_strong(value: str) -> bool:
    return is_value_of(Meaning.PASSWORD, value.rstrip(".,;)"), quoted=False)


_PUBLIC = ("phc_", "pk_", "pk-", "pub_", "cus_", "evt_", "price_", "prod_", "sub_", "acct_", "sha")
_MEANT = (
    "pat",
    "token",
    "key",
    "secret",
    "api",
    "sk",
    "access",
    "auth",
    "bot",
    "live",
    "svc",
    "gocd",
)


def _is_any_token(value: str) -> bool:
    """A prefix and random letters, of an issuer that nobody here knows."""
    body = value.replace("-", "_").rsplit("_", 1)[1]
    prefix = value.removesuffix(body)
    if (value.startswith(_PUBLIC) and "secret" not in prefix) or is_placeholder(body):
        return False
    digits = sum(c.isdigit() for c in body)
    mixed = digits >= 2 and not body.islower() and not body.isupper() and bits(body) >= 3.8
    return mixed or (digits >= 4 and bits(body) >= 3.0 and any(w in prefix for w in _MEANT))


_GUARDS: Mapping[str, Callable[[str], bool]] = {
    "any-token": _is_any_token, "authorization": _is_header, "api-key-header": _is_header,
    "session-cookie": _is_header, "spoken-password": _is_strong, "redis-password": _is_strong,
    "pgpass-password": _is_strong, "snmp-password": _is_strong, "wifi-password": _is_strong,
    "password-option": is_password, "url-password": is_password, "netrc-password": _is_strong,
    "sql-password": is_password, "password-argument": _is_strong,
    "twitter-bearer": lambda value: len(set(value)) > 20, "password-hash": lambda value: True,
    "wallet-key": lambda value: any(c.isdigit() for c in value) and bits(value) > 4,
}  # fmt: skip


# Keys in blocks

_BLOCK_BEGINS = compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}|\bPrivate-Lines: \d{1,4}"
)
_BODY = compile(r"[A-Za-z0-9+/=\s\\|:,.\"'()_@<>-]*")


def blocks(raw: bytes) -> Iterator[Found]:
    """Private keys, with or without their end: text is often cut."""
    for begin in _BLOCK_BEGINS.on_bytes.finditer(raw):
        start = begin.end()
        if begin[0].startswith(b"P"):
            stop = _lines_of_base64(raw, start)
            if stop - start > 40:
                yield start + 1, stop, "putty-key"
            continue
        stop = raw.find(b"----", start, start + 65_536)
        body = raw[start : stop if stop >= 0 else start + 65_536]
        if stop >= 0 and raw[stop : stop + 12].lstrip(b"- ").startswith(b"END"):
            stop = max(raw.find(b"KEY", stop, stop + 60), stop)
            stop = _DASHES.on_bytes.match(raw, stop).end()
        else:
            stop = start + _BODY.on_bytes.match(body).end()
            body = raw[start:stop]
        if len(body) > 40 and len(set(body)) > 20 and b"[secret:" not in body:
            yield begin.start(), stop, "private-key"


_DASHES = compile(r"(?:KEY(?: BLOCK)? ?)?-*")
_KEY_LINE = compile(r"\s{1,4}[A-Za-z0-9+/]{16,76}={0,2}")


def _lines_of_base64(raw: bytes, start: int) -> int:
    while (line := _KEY_LINE.on_bytes.match(raw, start, start + 100)) is not None:
        start = line.end()
    return start


# Addresses with a password

_ADDRESS = compile(
    r"(?i:[a-z][a-z0-9+.-]{1,20})(?:://|%3[aA]%2[fF]%2[fF])(?:[^\s:/\"'<>\\%]|%[0-9A-Fa-f]{2}){0,80}?(?::|%3[aA])"
)
_REST = compile(r"[^\s\"'<>`\\]+")
_HOST = compile(r"[A-Za-z0-9\[_$%{.-]")
_PORT = compile(r"^\d{1,5}(?:[/?#,]|$)")
_ALONE = compile(r"(?i:https?|git)://([A-Za-z0-9_-]{20,100})@([\w.-]{3,100})")


def urls(raw: bytes) -> Iterator[Found]:
    for address in _ADDRESS.on_bytes.finditer(raw):
        start = address.end()
        run = _REST.on_bytes.match(raw, start, start + 300)
        if run is None:
            continue
        web = address[0][:4].lower() in (b"http", b"git+", b"ssh:")
        stop = _password_ends(run[0], encoded=b"%3" in address[0][-12:], web=web)
        if stop and is_password(raw[start : start + stop].decode("utf-8", "replace")):
            yield start, start + stop, "url-password"
    for token in _ALONE.on_bytes.finditer(raw):
        value = token[1].decode()
        mixed = has_digit(value) and not value.isdigit() and bits(value) > 3.4
        if mixed and is_token(value) and b"sentry" not in token[2]:
            yield *token.span(1), "url-password"


def _password_ends(run: bytes, *, encoded: bool, web: bool) -> int:
    """Where the password of ``password@host/path`` ends; 0 where there is none."""
    if _PORT.on_bytes.match(run):
        return 0
    at = b"%40" if encoded and b"@" not in run else b"@"
    # Of a database, a path has no @ in it, but a password may have a slash.
    path = min(
        (i for mark in (b"/?#" if web else b"?") if (i := run.find(bytes((mark,)))) >= 0),
        default=len(run),
    )
    stop = run.rfind(at, 0, path)
    if stop < 0:
        # Some do not encode a slash in a password.
        stop = run.find(at)
    if stop < 2 or not _HOST.on_bytes.match(run, stop + len(at)):
        return 0
    return stop


# Manifests of Kubernetes, where everything is a secret by the kind of the document

_SECRET_KIND = compile(r"(?m:^[ \t]{0,20}\"?kind\"?:[ \t]{0,4}\"?Secret\b)")
_DATA = compile(r"(?m:^([ \t]{0,20})(?:data|stringData):[ \t]{0,4}\r?$)")
_ENTRY = compile(r"\r?\n([ \t]{1,40})[\w.-]{1,100}:[ \t]{1,4}[\"']?([^\s\"'|>{][^\s\"']{5,})")


def manifests(raw: bytes) -> Iterator[Found]:
    end = 0
    for kind in _SECRET_KIND.on_bytes.finditer(raw):
        first = max(end, raw.rfind(b"\n---", end, kind.start()), kind.start() - 8_000)
        last = raw.find(b"\n---", kind.end(), kind.end() + 65_536)
        last = last if last >= 0 else min(len(raw), kind.end() + 65_536)
        for data in _DATA.on_bytes.finditer(raw, first, last):
            at = data.end()
            while (entry := _ENTRY.on_bytes.match(raw, at, last)) is not None:
                at = entry.end() + (raw[entry.end() : entry.end() + 1] in (b'"', b"'"))
                value = entry[2].decode("utf-8", "replace")
                if is_password(value) and b"[secret:" not in entry[2]:
                    yield *entry.span(2), "kubernetes-secret"
        end = last


# What is wrapped in base64

_RUN = compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_LONGEST_RUN = 16_384


def encoded(raw: bytes) -> Iterator[Found]:
    """Text in base64 that has a secret in it, or is a name and a password."""
    for run in _RUN.on_bytes.finditer(raw):
        text = _decoded(run[0][:_LONGEST_RUN])
        if text is None:
            continue
        for finder in (blocks, shaped, urls, assigned):
            if next(finder(text), None) is not None:
                yield *run.span(), "encoded-secret"
                break


def _decoded(run: bytes) -> bytes | None:
    """What is written in base64, if that is text."""
    run = run.rstrip(b"=").translate(_URL_SAFE)
    try:
        if not _is_text(b64decode(run[:24])):
            return None
        text = b64decode(run + b"=" * (-len(run) % 4))
    except binascii.Error:
        return None
    return text if _is_text(text) else None


_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_TEXT = bytes(range(32, 127)) + b"\n\r\t"


def _is_text(data: bytes) -> bool:
    return not data.translate(None, _TEXT)
