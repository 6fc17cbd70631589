"""The pages that a session opened, as far as its steps show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from reasonbank.learn.session import Call, Entry, Turn
from reasonbank.safety.patterns import compile

MOST_SHOWN = 4
"""So many pages of one step are looked at."""
BEGINS = 1_500
"""A page says at its beginning what it is."""

_SHOWN = compile(r"screenshot of \[([^\]\n]{1,160})\]\((https?://[^\s)]{3,300})\)")
_ADDRESS = compile(r"(?im)^address: (https?://[^\s]{3,300})|for url: (https?://[^\s]{3,300})")
_TITLE = compile(r"(?im)^title: (\S[^\n]{0,159})")


@dataclass(frozen=True, slots=True)
class Page:
    number: int
    address: str
    title: str
    begins: str
    """Its title alone, where nothing else is known of it."""

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc


def pages(entry: Entry) -> Iterator[Page]:
    """The pages that a step opened."""
    text = (
        entry.answer if isinstance(entry, Call) else entry.text if isinstance(entry, Turn) else ""
    )
    if not text or (isinstance(entry, Turn) and entry.by_user):
        return
    for title, address in list(_SHOWN.findall(text))[:MOST_SHOWN]:
        yield Page(entry.number, address, title, title)
    for found in list(_ADDRESS.finditer(text[:20_000]))[:MOST_SHOWN]:
        begins = text[max(0, found.start() - 200) :][:BEGINS]
        title = _TITLE.search(begins)
        yield Page(entry.number, found[1] or found[2], title[1] if title else "", begins)
