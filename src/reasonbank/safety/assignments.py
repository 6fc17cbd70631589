"""Where a name and its value stand, in any syntax that joins the two.

A pattern finds names that may mean a secret and what joins them to a value; the value is then
read by the rules of quoting that apply there. Both are bounded, so that reading is linear.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from reasonbank.safety.patterns import compile
from reasonbank.safety.secret_names import Meaning, is_reference, is_value_of, meaning

_LONGEST_NAME = 64
_LONGEST = 4_000
_LONGEST_BARE = 512

_KEYWORD = (
    r"(?i:(?:api|access|secret|private|auth|encryption|signing|master|license|service) key|pass|pwd|pw\b|kennwort|senha|contrasena|secret|token|credential|creds?\b|key|auth|salt|"
    r"pepper|psk|rootpw|bindpw|mnemonic|seed|recovery|bearer|jwt|totp|otp)"
)
_CLOSED = r"(?:\\{0,3}[\"'`]|&quot;|%22|[\])*?]){0,4}"
_HEAD = (
    _KEYWORD + r"[\w.\-]{0,32}(?:(?i:[ -]?phrase| seed| key\b| secret))?(?:"
    # value="…" of the same element, or of the same record
    r"(?P<attribute>[\"'] [^<>\n]{0,60}?\b(?i:value|content) ?= ?)"
    r"|(?P<pair>[\"']?\s{0,4}[,:]?\s{0,40}\{?\s{0,20}(?:- )?(?:[\"']?\w{1,16}[\"']? ?[:=] ?[\"']?\w{1,16}[\"']?,?\s{0,20}){0,2}"
    r"[\"']?(?i:value|default)[\"']?[ \t]{0,4}[:=])"
    # name = value, "name": value, name: type = value, name := value, name <- value, | name | value
    rf"|(?P<assign>{_CLOSED}[ \t]{{0,30}}(?::[ ]?[&A-Za-z][\w<>\[\].?|&' ]{{0,30}}=| (?i:string|str|char) ?=|"
    r" ?\{ ?get;[^}\n]{0,20}\} ?=|\[\d{0,3}\] ?=|:=|=>|->|<-|[?+|]{0,2}={1,2}|::?|%3[dDaA]|\|))"
    # ("name", "value"), name("value")
    rf"|(?P<comma>{_CLOSED}[ \t]{{0,4}},\s{{0,10}})"
    r"|(?P<call>\(\s{0,4})"
    # <name>value</name>, <x key="name">value</x>, <key>name</key><string>value</string>
    r"|(?P<element>(?:[\"']?(?: [^<>\n]{0,60})?>\s{0,20}(?:<!\[CDATA\[|<(?i:value|string|plaintext)>\s{0,20})?|"
    r"</key>\s{0,20}<string>))"
    # "the password for x is value"
    r"|(?P<spoken>(?: (?:for|of|on) [\w. -]{1,30}?)? (?i:is|was|to)(?: now| set to)?:? {1,4})"
    r"|(?P<blank>[ \t]{1,8}))"
)
_HEADS = compile(_HEAD)
_LEAD = compile(
    r"(?P<space>[ \t]{0,30}(?P<line>\\?\r?\n\s{0,60})?(?:!!?\w{1,8} )?)"
    r"(?:(?:[bfruBFRU]{1,2}|[@$])?(?P<quote>\\{0,3}(?:\"\"\"|'''|\"|'|`)|&quot;|%22|\*\*`?))?"
)
_BLOCK = compile(r"[ \t]{0,8}[|>][+-]?\d?[ \t]{0,8}\r?\n(?P<indent>[ \t]{1,40})")
_BARE = compile(r"[^\s\"'`<>]+")
_NAME_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_TOOLS = compile(
    r"(?i)(?:^|[\s;|&(\"'+-])(?:ENV|ARG|set|setenv|setx|export|SetEnv|configure set|config set|config [\w -]{0,30}|"
    r"with|using|use|the|and)\s+$|config(?: set)?\s+\S{0,60}$"
)
_SCHEME = compile(r"(?i)^(?:bearer|basic|token|apikey|api-key|digest|bot|ssws|key)(?:\s|%20)+")

Found = tuple[int, int, str]


def assigned(raw: bytes) -> Iterator[Found]:
    """Start, end and kind of each value that is a secret because of its name."""
    end = 0
    for head, after in pairwise(chain(_HEADS.on_bytes.finditer(raw), (None,))):
        # In a chain of names only the last has a value.
        if head.start() < end or (after is not None and after.start() == head.end()):
            continue
        if raw.startswith(b"[secret:", head.start() - 1) or raw.startswith(b"[secret:", head.end()):
            continue
        found = _value_of(raw, head)
        if found is not None:
            yield found
            end = found[1]


def _value_of(raw: bytes, head: Any) -> Found | None:
    how, joint = _joint(head)
    name = _name(raw, head.start(), joint)
    kind = meaning(name)
    if kind is Meaning.NOTHING:
        return None
    place = _Place(raw, head.end(), how, name, kind, head.start())
    return place.found()


_JOINTS = ("attribute", "pair", "assign", "comma", "call", "element", "spoken", "blank")


def _joint(head: Any) -> tuple[str, int]:
    for number, how in enumerate(_JOINTS, 1):
        start: int = head.start(number)
        if start >= 0:
            return how, start
    raise AssertionError("every head has a joint")


def _name(raw: bytes, start: int, stop: int) -> str:
    before = raw[max(0, start - _LONGEST_NAME) : start]
    left = before[len(before.rstrip(_NAME_LETTERS)) :]
    mark = before[len(before) - len(left) - 1 : len(before) - len(left)]
    name = (left + raw[start:stop]).decode("ascii", "replace")
    if name.lower() == "key" and mark in (b"?", b"&"):
        return "?key"
    return name


class _Place:
    """A value, where it stands."""

    def __init__(
        self, raw: bytes, at: int, how: str, name: str, kind: Meaning, name_at: int
    ) -> None:
        self.raw, self.at, self.how, self.name, self.kind = raw, at, how, name, kind
        self.name_at = name_at

    def found(self) -> Found | None:
        if self.how == "assign" and (block := self._block()):
            return self._judged(*block, quoted=True)
        if self.how == "blank" and self.raw[self.at : self.at + 1] not in (b'"', b"'", b"`"):
            return self._bare(self.at) if self._may_follow_a_blank() else None
        lead = _LEAD.on_bytes.match(self.raw, self.at, self.at + 120)
        quote, start = lead["quote"], lead.end()
        if quote is not None and quote.startswith(b"**"):
            quote = None if quote == b"**" else b"`"
        if quote is not None:
            stop = self._closing(quote, start)
            if stop is not None:
                return self._judged(start, stop, quoted=True)
        elif lead["line"] is not None:
            return None
        return self._bare(lead.end(1))

    def _block(self) -> tuple[int, int] | None:
        """The lines of a YAML block."""
        opened = _BLOCK.on_bytes.match(self.raw, self.at, self.at + 80)
        if opened is None:
            return None
        indent, start, raw = opened["indent"], opened.end(), self.raw
        stop = start
        while stop - start < _LONGEST:
            end = raw.find(b"\n", stop, start + _LONGEST)
            if end < 0:
                return start, min(len(raw), start + _LONGEST)
            if not raw.startswith(indent, end + 1):
                return start, end
            stop = end + 1
        return None

    def _closing(self, quote: bytes, start: int) -> int | None:
        stop = start
        while (stop := self.raw.find(quote, stop, start + _LONGEST)) >= 0:
            escapes = len(quote) == 1 and self.raw[stop - 1 : stop] == b"\\"
            if not escapes or self.raw[stop - 2 : stop - 1] == b"\\":
                return stop if b"\n" not in self.raw[start:stop] or stop - start > 60 else None
            stop += 1
        return None

    def _bare(self, start: int) -> Found | None:
        if self.how in ("comma", "call"):
            return None
        raw = self.raw
        if self.kind is Meaning.WORDS:
            line = raw.find(b"\n", start, start + 400)
            return self._judged(
                start, line if line >= 0 else min(len(raw), start + 400), quoted=False
            )
        run = _BARE.on_bytes.match(raw, start, start + _LONGEST_BARE)
        if run is None:
            return None
        text, stop = run[0], run.end()
        if (scheme := _SCHEME.on_bytes.match(raw, start, start + 200)) is not None:
            run = _BARE.on_bytes.match(raw, scheme.end(), scheme.end() + _LONGEST_BARE)
            if run is None:
                return None
            start, text, stop = run.start(), run[0], run.end()
        stop = start + self._cut(text, raw[stop : stop + 1])
        return self._judged(start, stop, quoted=False)

    def _may_follow_a_blank(self) -> bool:
        """``--password x``, ``ENV PASSWORD x``: a blank alone joins nothing."""
        name_at = self.name_at
        before = self.raw[max(0, name_at - _LONGEST_NAME - 40) : name_at]
        before = before[: len(before.rstrip(_NAME_LETTERS))]
        written = self.raw[len(before) + max(0, name_at - _LONGEST_NAME - 40) : self.at]
        if written.startswith(b"-"):
            return written.startswith((b"--", b"-")) and written[1:2] != b" "
        return bool(_TOOLS.search(before[-48:].decode("utf-8", "replace")))

    def _cut(self, text: bytes, after: bytes) -> int:
        """How much of a run without blanks and quotes is the value."""
        before = self.raw[max(0, self.at - 120) : self.at]
        if after in (b'"', b"'", b"`", b"<") or b"%3D" in before[-4:] or b"%3A" in before[-4:]:
            # It stands inside of something that is quoted or encoded as a whole.
            for mark in (b"%26", b"%22", b"%2C", b"%7D"):
                if (at := text.find(mark)) > 0:
                    text = text[:at]
        for mark in (b"&", b";", b","):
            at = text.find(mark)
            while at >= 0:
                rest = text[at + 1 :]
                if _NEXT.on_bytes.match(rest) or not rest.strip(b")]}\\,;"):
                    text = text[:at]
                    break
                at = text.find(mark, at + 1)
        for mark in (b"\\n", b"\\r", b"\\t", b"</", b"\\u00"):
            if (at := text.find(mark)) > 0:
                text = text[:at]
        text = text.rstrip(b",;\\|")
        while (
            text and text[-1:] in b")]}" and text.count(_OPENING[text[-1:]]) < text.count(text[-1:])
        ):
            text = text[:-1].rstrip(b",;")
        return len(text.rstrip(b".:*") if after in (b"", b"\n", b" ") else text)

    def _judged(self, start: int, stop: int, *, quoted: bool) -> Found | None:
        value = self.raw[start:stop].decode("utf-8", "replace")
        scheme = _SCHEME.match(value) if quoted and self.kind is Meaning.SECRET else None
        if scheme is not None:
            start += len(scheme[0])
            value = value[len(scheme[0]) :]
        stripped = value.strip()
        if not stripped or len(stripped) > _LONGEST:
            return None
        if self.how == "spoken" or (self.how == "blank" and not quoted):
            if is_reference(stripped) or stripped.isalpha() or stripped.rstrip(".,!?:;").isalpha():
                return None
            if self.how == "spoken" and not any(c.isdigit() for c in stripped):
                return None
        if "\n" in stripped and self.kind is not Meaning.WORDS:
            stripped = "".join(stripped.split())
        if not is_value_of(self.kind, stripped, quoted=quoted):
            return None
        piece = self.raw[start:stop]
        start, stop = stop - len(piece.lstrip()), start + len(piece.rstrip())
        return start, stop, "spoken-password" if self.how == "spoken" else "secret"


_NEXT = compile(r"\s{0,4}[A-Za-z_][\w .-]{0,40}(?:=|%3[dD])|\s|$")
_OPENING = {b")": b"(", b"]": b"[", b"}": b"{"}
