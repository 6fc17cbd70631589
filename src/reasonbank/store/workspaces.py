"""Workspaces: which one a directory is, and naming, moving, merging and deleting them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from reasonbank.errors import ConfirmationNeeded, Forbidden, InvalidInput, NotFound, Refused
from reasonbank.fields import text
from reasonbank.ledger.events import PEERS, EventType
from reasonbank.ledger.port import Reading, Writing
from reasonbank.model import Principal, Workspace, counted, new_id
from reasonbank.settings import ORG, TEAM
from reasonbank.store import peer_names
from reasonbank.store.checkouts import Checkout, checkout_of, upwards
from reasonbank.store.context import Context


@dataclass(frozen=True, slots=True)
class Project:
    """The workspace of a directory, and the path it is known by, or will be."""

    id: str
    path: str


def path_of(workspace: str | os.PathLike[str] | None) -> str:
    """An absolute path as it was given; ``..`` and ``~`` are resolved, symbolic links are not."""
    if workspace is None:
        return _here()
    path = text(os.path.expanduser(os.fspath(workspace)), "workspace", 4096)
    return os.path.normpath(path if os.path.isabs(path) else os.path.join(_here(), path))


def _here() -> str:
    """This directory; one that was deleted is known by the name that the shell remembers."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        path = os.environ.get("PWD", "")
        if not os.path.isabs(path):
            raise InvalidInput(
                "workspace", "is missing, and this directory is gone; name one with --workspace"
            ) from None
        return os.path.normpath(path)


def is_place(directory: object) -> TypeGuard[str]:
    """Whether this names a directory, be it still there or not: where a session says it worked."""
    return isinstance(directory, str) and os.path.isabs(directory) and len(directory) <= 4096


def digest_of(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def listed(context: Context) -> list[Workspace]:
    """All workspaces of the bank, and of which other bank those are that nobody works in here."""
    reading = context.read()
    return [
        replace(place, peer=_bank_of(reading, place.id))
        if not (place.path or place.name)
        else place
        for place in reading.workspaces()
    ]


def _bank_of(reading: Reading, workspace: str) -> str | None:
    joined = reading.about([workspace], frozenset({EventType.JOINED}))
    return peer_names.named(reading, PEERS + joined[0].origin[:16]) if joined else None


def project_of(
    reading: Reading,
    workspace: str | os.PathLike[str] | None,
    *,
    among: Collection[str] | None = None,
) -> Project:
    """The workspace of a directory: the one way from a path to an id, through every surface.

    Inside a git repository it is a known workspace at or above the directory, else the root that
    all checkouts of the repository share. Elsewhere it is the nearest known one above, else the
    directory itself. To a caller who reaches only some workspaces (``among``) these alone are
    known: what others store changes nothing for them.
    """
    given = path_of(workspace)
    real = os.path.realpath(given)
    checkout = checkout_of(real)
    paths = dict.fromkeys(_candidates(given, real, checkout))
    new = real if checkout is None else checkout.main
    places = reading.workspaces_at([digest_of(path) for path in (*paths, new)])
    for path in paths:
        id, stored = places[digest_of(path)]
        if stored if among is None else id in among:
            return Project(id, path)
    return Project(places[digest_of(new)][0], new)


def _candidates(given: str, real: str, checkout: Checkout | None) -> Iterator[str]:
    """Paths whose workspace may be that of a directory, the best first.

    What was stored under a path with symbolic links in it is found by that path.
    """
    yield from (given, real)
    if checkout is None:
        home = os.path.expanduser("~")
        # What lies in the home folder, or anywhere at all, has little in common.
        never = {home, os.path.realpath(home)}
        for path in (*upwards(real), *upwards(given)):
            if path not in never and os.path.dirname(path) != path:
                yield path
        return
    yield from (path for path in upwards(real) if is_within(path, checkout.root))
    if given != real:
        for path in upwards(given):
            if is_within(os.path.realpath(path), checkout.root):
                yield path
    if checkout.main != checkout.root:
        twin = os.path.join(checkout.main, os.path.relpath(real, checkout.root))
        twin = os.path.normpath(twin)
        yield from (path for path in upwards(twin) if is_within(path, checkout.main))


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def exactly_at(reading: Reading, path: str) -> str | None:
    """The stored workspace of this very path, whether or not the folder is still there."""
    given = path_of(path)
    places = reading.workspaces_at([digest_of(given), digest_of(os.path.realpath(given))])
    return next((id for id, stored in places.values() if stored), None)


def name(context: Context, id: str, name: str) -> Workspace:
    def work(txn: Writing) -> Workspace:
        place = known(txn, id)
        if any(w.name == name and w.id != place.id for w in txn.workspaces()):
            raise InvalidInput("name", f"another workspace is called {name!r}")
        context.append(txn, EventType.NAMED, place.id, {"name": name}, workspace=place.id)
        return replace(place, name=name)

    return context.write(work)


def move(context: Context, id: str, path: str | os.PathLike[str]) -> Workspace:
    new = os.path.realpath(path_of(path))

    def work(txn: Writing) -> Workspace:
        place = known(txn, id)
        if place.path == context.fit_name(new):
            return place
        if _is_an_agents_shell(context) and place.path and os.path.isdir(place.path):
            raise Forbidden(
                f"{place.path} is still there, and only a person says that it is elsewhere now: "
                "what was learned in it would be known to those who work in another project"
            )
        taken, stored = txn.workspaces_at([digest_of(new)])[digest_of(new)]
        if stored and taken != place.id:
            raise Refused(
                f"{new} has a workspace of its own ({taken}); `reasonbank workspace merge` makes "
                "one of the two"
            )
        payload = {
            "path": context.fit_name(new),
            "digest": digest_of(new),
            "old_digest": _digest_of_stored(place),
            "heir": new_id().replace("-", "")[-16:],
        }
        context.append(txn, EventType.MOVED, place.id, payload, workspace=place.id)
        return replace(place, path=context.fit_name(new))

    return context.write(work)


def _is_an_agents_shell(context: Context) -> bool:
    return context.surface == "cli" and context.principal is not Principal.PERSON


def merge(context: Context, id: str, into: str) -> Workspace:
    """All that was written in one workspace, and is on other machines, belongs to another."""
    if _is_an_agents_shell(context):
        raise Forbidden(
            "only a person makes one of two workspaces: what an agent wrote in the one would reach "
            "those who work in the other; ask for it to be done in a terminal of their own"
        )

    def work(txn: Writing) -> Workspace:
        source, target = known(txn, id), known(txn, into)
        if source.id == target.id:
            raise InvalidInput("into", f"{into[:80]!r} and {id[:80]!r} are the same workspace")
        payload = {"into": target.id}
        context.append(txn, EventType.MERGED, source.id, payload, workspace=source.id)
        return known(txn, target.id)

    merged = context.write(work)
    context.store.indexing.wake()
    return merged


def join(context: Context, id: str | None, *, team: str | None, org: str | None) -> Workspace:
    """Put a workspace into a team and an org; None leaves what it has."""
    settings = context.settings

    def fit(name: str | None) -> str | None:
        return name and context.fit_name(name, settings.limits.label)

    for name, new, preset, usual in (
        ("team", team, settings.team, TEAM), ("org", org, settings.org, ORG)
    ):  # fmt: skip
        if new is not None and preset not in (usual, new):
            raise Refused(
                f"the setting {name} says {preset!r}, and outranks what a workspace is put into; "
                "remove it first"
            )

    def work(txn: Writing) -> Workspace:
        if id is None:
            context.join(txn)
        place = known(txn, id or context.view.workspace)
        place = replace(place, team=fit(team) or place.team, org=fit(org) or place.org)
        payload = {"path": place.path, "team": place.team, "org": place.org}
        context.append(txn, EventType.JOINED, place.id, payload, workspace=place.id)
        return place

    return context.write(work)


def _digest_of_stored(place: Workspace) -> str | None:
    if place.path and "[secret:" in place.path:
        return place.id  # The digest of the first path; what is stored is not the whole path.
    return digest_of(place.path) if place.path else None


def delete(context: Context, id: str, *, confirm: bool) -> int:
    place = known(context.read(), id)
    if not confirm:
        raise ConfirmationNeeded(
            f"this removes workspace {place.name or place.id} ({place.path}) with "
            f"{counted(place.memories)} for good, which nobody has confirmed"
        )
    context.store.flush()

    def work(txn: Writing) -> list[tuple[int, str]]:
        rows = txn.nums_of(place.id)
        ids = [id for _, id in rows]
        for member in txn.members(place.id):
            payload = {"ids": ids, "paths": txn.old_paths(member)}
            context.append(txn, EventType.DELETED, member, payload, workspace=member)
            ids = []
        return rows

    rows = context.write(work)
    context.store.erase([num for num, _ in rows])
    return len(rows)


def known(reading: Reading, which: str) -> Workspace:
    """A stored workspace by its id, its name or the path it is at."""
    which = text(which, "workspace", 4096)
    places = {place.id: place for place in reading.workspaces()}
    named = (place for place in places.values() if place.name == which)
    if place := places.get(which) or next(named, None):
        return place
    if (home := reading.home(which)) != which:
        raise NotFound(f"workspace {which} was merged into {home}")
    if (id := exactly_at(reading, which)) is not None:
        return places[id]
    project = project_of(reading, which)
    if os.path.lexists(path_of(which)) and (there := places.get(project.id)) is not None:
        raise NotFound(
            f"{which} is no workspace of its own: it belongs to {there.name or there.id} "
            f"({there.path})"
        )
    raise NotFound(f"there is no workspace {which!r}; `reasonbank workspace list` shows all")
