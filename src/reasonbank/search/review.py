"""What waits for a person: memories that nothing has confirmed, or that nobody is shown because of
who wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from reasonbank.ledger.port import Filter, Reading, Row
from reasonbank.model import ForReview, Standing, from_micros
from reasonbank.search.estimate import trust_in
from reasonbank.search.gather import FEW
from reasonbank.store import peer_names
from reasonbank.store.context import Context
from reasonbank.store.probation import unheard_of
from reasonbank.trust.authors import Record, records_of

UNTESTED = "nothing has confirmed it yet"
OTHERWISE = "it was told with many others, or waited before what it asks for was changed or done"
Called = Callable[[str | None], str | None]
"""What the bank of a hand is called, if it is another one."""


def review(context: Context, limit: int, hand: str | None = None) -> list[ForReview]:
    """What waits for a person first, then what is hidden, then what is untested."""
    reading = context.store.ledger.cached_read()
    called = cache(partial(peer_names.named, reading))
    rows = reading.on_probation(context.view, limit, hand=hand)
    waits = [_on_probation(context, reading, row, called) for row in rows]
    hidden = [
        _told(row, "hidden", record.why_hidden(row.author), called)
        for row, record in _hidden(context, reading, limit)
        if hand in (None, row.hand)
    ]
    waiting = [each for each in waits if each.standing is Standing.WAITING]
    untested = [each for each in waits if each.standing is not Standing.WAITING]
    known = {each.id for each in waiting}
    hidden = [each for each in hidden if each.id not in known]
    known |= {each.id for each in hidden}
    return [*waiting, *hidden, *(each for each in untested if each.id not in known)][:limit]


def _on_probation(context: Context, reading: Reading, row: Row, called: Called) -> ForReview:
    memory = row.memory()
    reasons = [f"its text {reason}" for reason in context.store.flags.of(memory)]
    if memory.standing is Standing.WAITING:
        new = unheard_of(context, reading, memory)
        reasons += [f"it {risk.action}: {risk.snippet}" for risk in new] or [OTHERWISE]
    return _told(row, str(memory.standing), "; ".join(reasons) or UNTESTED, called)


def _told(row: Row, kind: str, reason: str, called: Called) -> ForReview:
    memory = row.memory()
    return ForReview(
        id=row.id, title=memory.title, author=row.author, hand=row.hand,
        peer=called(row.hand), kind=kind, standing=memory.standing, reason=reason,
        scope=memory.scope, source=memory.source, source_session=memory.source_session,
        created_at=from_micros(row.created_at),
    )  # fmt: skip


def _hidden(context: Context, reading: Reading, limit: int) -> Iterator[tuple[Row, Record]]:
    known = reading.authors(context.view)
    records = records_of(known, {author for _, author in known})
    if all(record.weight for record in records.values()):
        return
    nums = reading.matching(context.view, Filter(), None)
    assert nums is not None
    newest = nums[::-1]
    hidden: list[int] = []
    for start in range(0, len(newest), FEW):
        rows = reading.candidates(context.view, Filter(), newest[start : start + FEW])
        weight = trust_in(context, reading, rows, rows.initial, None).author_weight
        hidden += rows.nums[weight == 0].tolist()
    chosen = sorted(hidden, reverse=True)[:limit]
    for row in reading.rows(context.view, chosen):
        yield row, records[row.author]
