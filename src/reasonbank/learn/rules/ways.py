"""Where things stand at a site that a task led to: the addresses that were opened on the way.

The next task at that site needs no search and no clicks. What was read there is not told: nothing
shows whether it was read rightly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.matters import stems
from reasonbank.learn.rules.pages import Page, pages
from reasonbank.learn.rules.surroundings import WALL
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Entry, Session
from reasonbank.model import Outcome
from reasonbank.safety.patterns import compile

_words = str.split

LEAST_PAGES = 2
MOST_PAGES = 6
LEAST_COMMON = 2
"""So many words must the task and the titles of a site's pages have in common."""
LONGEST_ADDRESS = 140
SAME = 0.6
"""From this share of common words on, two titles name the same thing."""

# Where everybody searches, and where everything stands under its name.
_COMMON = compile(
    r"(?i)(?:^|\.)(?:bing|google|duckduckgo|yahoo|baidu|yandex|ecosia|brave|startpage|wikipedia)"
    r"\.[a-z.]{2,8}\z"
)
_OUTSIDE = compile(r"(?i)^[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}\z")
_NO_PAGE = compile(r"(?i)\b(?:error 4\d\d|error 5\d\d|404|not found|page (?:is )?unavailable)\b")
_ENTRANCE = compile(
    r"(?i)/(?:log-?in|sign-?(?:in|up)|register|account|auth|checkout|cart|(?:home|index|default)"
    r"(?:\.\w{2,5})?/?\z)"
)
# What tells a visit from another one, and not what is to be shown.
_OF_THE_VISIT = compile(
    r"(?i)^(?:utm_\w+|ref(?:errer)?|src|source|(?:ms|g|fb)clk?id|(?:\w+[_-])?(?:access)?(?:token|"
    r"session(?:_?id)?|sid|auth\w*|(?:api)?key|secret|sig(?:nature)?|password|code|cvid))\z"
)
_OPAQUE = compile(r"[0-9A-Fa-f-]{16,}|[A-Za-z0-9_+=-]{24,}")
_PARTS = compile(r" (?:[|·–—-]|::) ")


def ways(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Of the sites that the task led to, the one of which most was seen."""
    task = session.given or session.task
    sites: dict[str, dict[str, Page]] = {}
    for page in (page for entry in entries for page in pages(entry)):
        if _tells(page) and (address := _address(page)) and address not in task:
            sites.setdefault(page.host, {}).setdefault(address, page)
    found = [(host, _things(opened)) for host, opened in sites.items()]
    found = [(host, kept) for host, kept in found if _is_way(kept) and _led_to(task, host, kept)]
    if found:
        yield _stands(session, *max(found, key=lambda site: len(site[1])))


def _tells(page: Page) -> bool:
    host = page.host
    return bool(
        _OUTSIDE.match(host)
        and not _COMMON.search(host)
        and _name(page)
        and not (WALL.search(page.begins) or _NO_PAGE.search(page.title))
        and not _ENTRANCE.search(urlsplit(page.address).path)
    )


def _address(page: Page) -> str:
    """Without what only this visit had; empty where that leaves nothing to go by."""
    parts = urlsplit(page.address)
    asked = [
        f"{name}={value}"
        for name, value in parse_qsl(parts.query)
        if not (_OF_THE_VISIT.match(name) or _OPAQUE.fullmatch(value))
    ]
    query = "&".join(asked).replace(" ", "+")
    path = unquote(parts.path)
    address = f"https://{parts.netloc}{path}" + (f"?{query}" if query else "")
    return address if len(address) <= LONGEST_ADDRESS and " " not in path else ""


def _things(opened: dict[str, Page]) -> dict[str, Page]:
    """One address for each thing that a title names, the shortest."""
    kept: dict[str, Page] = {}
    for address, page in opened.items():
        same = next((other for other, known in kept.items() if _is_same(page, known)), None)
        if same is None or len(address) < len(same):
            kept.pop(same or "", None)
            kept[address] = page
    return kept


def _is_same(one: Page, other: Page) -> bool:
    mine, its = stems(_name(one)), stems(_name(other))
    return len(mine & its) > SAME * len(mine | its)


def _is_way(kept: dict[str, Page]) -> bool:
    """Several things, or one that was asked for by what it is to show."""
    deep = [address for address in kept if urlsplit(address).path.strip("/")]
    return len(deep) >= LEAST_PAGES or any("?" in address for address in deep)


def _led_to(task: str, host: str, found: dict[str, Page]) -> bool:
    asked = stems(task)
    labels = [label for label in host.lower().split(".")[:-1] if len(label) > 2 and label != "www"]
    if any(label in task.lower() for label in labels):
        return True
    told = " ".join(_name(page) for page in found.values())
    return len(asked & stems(told)) >= LEAST_COMMON


def _name(page: Page) -> str:
    """What a title says first: behind it stands the name of the site."""
    return short(_PARTS.split(page.title.strip(), 1)[0].strip(), 70)


def _stands(session: Session, host: str, found: dict[str, Page]) -> Finding:
    kept = list(found.items())[-MOST_PAGES:]
    listed = "\n".join(f"- {_name(page)}: {address}" for address, page in kept)
    first, last = kept[0][1].number, kept[-1][1].number
    named = "; ".join(f"{_name(page)} at {_path(address)}" for address, page in kept[-2:])
    return noted(
        session, "way", first, last, weight=0.58,
        title=f"Where it stands at {host}: {named}",
        description=f"When a task leads to {host}, as this one did: {gist(session)}",
        content=f"Task: {gist(session)}\n\nThese pages of {host} were found and opened for it, one "
        f"after another:\n{listed}\n\nOpen such an address directly, with what differs put in, "
        "before searching or clicking through the site. What was concluded from them was not "
        "checked.",
        outcome=Outcome.MIXED,
        tags=(host,),
    )  # fmt: skip


def _path(address: str) -> str:
    parts = urlsplit(address)
    return short((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), 70)
