"""Workspaces: which one a directory is, and naming, moving and deleting them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TypeGuard

from reasonbank.errors import ConfirmationNeeded, InvalidInput, NotFound, Refused
from reasonbank.fields import text
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Reading, Writing
from reasonbank.model import Workspace, counted, new_id
from reasonbank.store.context import Context


def path_of(workspace: str | os.PathLike[str] | None) -> str:
    """The absolute path that names a workspace; ``..`` and ``~`` are resolved."""
    if workspace is None:
        return os.getcwd()
    path = os.path.abspath(os.path.expanduser(os.fspath(workspace)))
    return text(path, "workspace", 4096)


def is_place(directory: object) -> TypeGuard[str]:
    """Whether this names a directory, be it still there or not: where a session says it worked."""
    return isinstance(directory, str) and os.path.isabs(directory) and len(directory) <= 4096


def digest_of(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def at(reading: Reading, path: str) -> str:
    """The id of the workspace of this directory, whether or not it is stored yet."""
    return reading.workspace_at(digest_of(path)) or digest_of(path)


def name(context: Context, id: str, name: str) -> Workspace:
    def work(txn: Writing) -> Workspace:
        place = _known(txn, id)
        if any(w.name == name and w.id != place.id for w in txn.workspaces()):
            raise InvalidInput("name", f"another workspace is called {name!r}")
        context.append(txn, EventType.NAMED, place.id, {"name": name}, workspace=place.id)
        return replace(place, name=name)

    return context.write(work)


def move(context: Context, id: str, path: str | os.PathLike[str]) -> Workspace:
    new = path_of(path)

    def work(txn: Writing) -> Workspace:
        place = _known(txn, id)
        taken = at(txn, new)
        if taken == place.id:
            return place
        if txn.place(taken) is not None:
            raise Refused(f"{new} has a workspace of its own ({taken}); delete it first")
        payload = {
            "path": context.fit_name(new),
            "digest": digest_of(new),
            "old_digest": _digest_of_stored(place),
            "heir": new_id().replace("-", "")[-16:],
        }
        context.append(txn, EventType.MOVED, place.id, payload, workspace=place.id)
        return replace(place, path=context.fit_name(new))

    return context.write(work)


def _digest_of_stored(place: Workspace) -> str | None:
    if place.path and "[secret:" in place.path:
        return place.id  # The digest of the first path; what is stored is not the whole path.
    return digest_of(place.path) if place.path else None


def delete(context: Context, id: str, *, confirm: bool) -> int:
    place = _known(context.read(), id)
    if not confirm:
        raise ConfirmationNeeded(
            f"this removes workspace {place.name or place.id} ({place.path}) with "
            f"{counted(place.memories)} for good, which nobody has confirmed"
        )
    context.store.flush()

    def work(txn: Writing) -> list[tuple[int, str]]:
        rows = txn.nums_of(place.id)
        payload = {"ids": [id for _, id in rows], "paths": txn.old_paths(place.id)}
        context.append(txn, EventType.DELETED, place.id, payload, workspace=place.id)
        return rows

    rows = context.write(work)
    context.store.erase([num for num, _ in rows])
    return len(rows)


def _known(reading: Reading, id_or_name: str) -> Workspace:
    for place in reading.workspaces():
        if id_or_name in (place.id, place.name):
            return place
    raise NotFound(f"there is no workspace {id_or_name!r}; `reasonbank workspace list` shows all")
