"""What to say of an answer without hits: other workspaces that lie nearby, and know something."""

from __future__ import annotations

import os

from reasonbank.ledger.port import Reading
from reasonbank.model import Right, Workspace, counted
from reasonbank.store.checkouts import checkout_of, checkouts, upwards
from reasonbank.store.context import Context
from reasonbank.store.workspaces import is_within

MOST_NAMED = 3


def hint(context: Context) -> str | None:
    """Only to who may see where projects lie: whoever administers them."""
    if not context.right.includes(Right.ADMIN):
        return None
    here = context.view.workspace
    reading = context.store.ledger.cached_read()
    if (home := reading.cached(("home", here), lambda: reading.home(here))) != here:
        return f"Workspace {here} was merged into {home}; open the bank again, or search there."
    places = _nearby(context, reading)
    if not places:
        return None
    named = "; ".join(f"{place.path} ({counted(place.memories)})" for place in places[:MOST_NAMED])
    more = f"; and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return (
        f"Other workspaces nearby know something: {named}{more}. Search one with --workspace PATH "
        "(over MCP and HTTP: workspace), or make one of two with "
        "`reasonbank workspace merge FROM INTO`."
    )


def _nearby(context: Context, reading: Reading) -> list[Workspace]:
    """Those above, below, and in the same repository, that the caller may know of."""
    if (given := context.path) is None:
        return []
    # Until something is written: what lies where is seldom another from one search to the next.
    path, found = reading.cached(("near", given), lambda: _around(given, reading))
    near = (
        place
        for place in found
        if place.id != context.view.workspace
        and (context.reaches is None or place.id in context.reaches)
    )
    # The nearest first: below, then above.
    return sorted(near, key=lambda place: (not is_within(place.path or "", path), place.path))


def _around(given: str, reading: Reading) -> tuple[str, list[Workspace]]:
    """The real path, and what is known above and below it, whoever may know of it."""
    path = os.path.realpath(given)
    folders = {path, given}
    if (checkout := checkout_of(path)) is not None:
        folders |= {checkout.root, checkout.main, *checkouts(checkout.main)}
    above = {each for folder in (path, given) for each in upwards(folder)}
    under = tuple(sorted(folder.rstrip(os.sep) + os.sep for folder in folders))
    return path, reading.workspaces_near(under, tuple(sorted(above | folders)))
