"""Who changed what, when and through which surface."""

from __future__ import annotations

from reasonbank.fields import parse_id, text, whole
from reasonbank.ledger.port import Wanted
from reasonbank.model import Change
from reasonbank.store.context import Context


def changes(
    context: Context,
    *,
    limit: int,
    before: int | None,
    author: str | None,
    surface: str | None,
    memory: str | None,
    uses: bool,
    everywhere: bool,
) -> list[Change]:
    label = context.settings.limits.label
    wanted = Wanted(
        workspace=None if everywhere else context.view.workspace,
        limit=whole(limit, "limit", least=1, most=100_000),
        before=None if before is None else whole(before, "before", least=0, most=1 << 62),
        author=None if author is None else text(author, "author", label),
        surface=None if surface is None else text(surface, "surface", label),
        subject=None if memory is None else parse_id(memory, "memory"),
        uses=uses,
    )
    return context.read().audit(wanted)
