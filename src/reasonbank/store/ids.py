"""Ids that people shorten: a part will do that only one thing in sight has."""

from __future__ import annotations

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.store.context import Context

MOST_NAMED = 10
_SHOWN_BY = {"memory": "list", "trace": "trace list", "job": "queue list", "batch": "batches"}


def whole(context: Context, kind: str, part: str, name: str) -> str:
    """The id that has these digits in a row."""
    reading = context.read()
    found = reading.ids_with(context.view, kind, part, MOST_NAMED + 1)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"there is no {kind} with {part} in its id in workspace {context.view.workspace}; "
            f"`reasonbank {_SHOWN_BY[kind]}` shows the ids that are"
        )
    titles = reading.titles(context.view, found) if kind == "memory" else {}
    lines = [f"{id}  {titles.get(id, '')}".rstrip() for id in found[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        lines.append("… and more")
    raise InvalidInput(
        name, f"{part} is in several ids; give more of the one that you mean:\n" + "\n".join(lines)
    )
