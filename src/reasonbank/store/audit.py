"""Who changed what, when and through which surface."""

from __future__ import annotations

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
    wanted = Wanted(
        workspace=None if everywhere else context.view.workspace,
        limit=limit,
        before=before,
        author=author,
        surface=surface,
        subject=memory,
        uses=uses,
    )
    return context.read().audit(wanted)
