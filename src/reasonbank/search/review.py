"""What waits for a person: memories that nobody is shown because of who wrote them."""

from __future__ import annotations

from reasonbank.ledger.port import Filter
from reasonbank.model import Hidden
from reasonbank.search.estimate import trust_in
from reasonbank.search.gather import FEW
from reasonbank.store.context import Context
from reasonbank.trust.authors import records_of


def review(context: Context, limit: int) -> list[Hidden]:
    reading = context.store.ledger.cached_read()
    known = reading.authors(context.view)
    records = records_of(known, {author for _, author in known})
    if all(record.weight for record in records.values()):
        return []
    nums = reading.matching(context.view, Filter(), None)
    assert nums is not None
    newest = nums[::-1]
    hidden: list[int] = []
    for start in range(0, len(newest), FEW):
        rows = reading.candidates(context.view, Filter(), newest[start : start + FEW])
        weight = trust_in(context, reading, rows, rows.initial, None).author_weight
        hidden += rows.nums[weight == 0].tolist()
    chosen = sorted(hidden, reverse=True)[:limit]
    return [
        Hidden(
            id=row.id,
            title=row.memory().title,
            author=row.author,
            reason=records[row.author].why_hidden(row.author),
        )
        for row in reading.rows(context.view, chosen)
    ]
