"""One call from outside: who makes it, from where, and how to tell of progress."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reasonbank.access import LOCAL, Caller, TokenStore
from reasonbank.bank import Bank
from reasonbank.errors import Forbidden, NotFound
from reasonbank.model import Right, Trace, Workspace
from reasonbank.store.context import Progress
from reasonbank.store.workspaces import exactly_at, is_place

if TYPE_CHECKING:
    from reasonbank.llm.port import Model


def _silent(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """``root`` is the bank of the whole process; ``bank`` is what the caller sees of it."""

    root: Bank
    surface: str
    caller: Caller = LOCAL
    workspace: str | None = None
    progress: Progress = _silent
    """May raise to end what can be resumed: call it only between two transactions."""
    report: Callable[[float, float, str], Awaitable[None]] | None = None
    """Tells the client how far an ``async`` tool is."""
    model: Model | None = None
    clients_model: Model | None = None
    """The one of whoever calls, if the settings want it and the client offers it."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Survives while the client is asked: it answers by calling again, and the tool begins anew."""

    @property
    def bank(self) -> Bank:
        return self.caller.bank(self.root, self.workspace, surface=self.surface)

    def project_of(self, session: Trace) -> Bank:
        """The project that was asked for, else the one that the session worked in, if the caller
        reaches it."""
        directory = session.metadata.get("directory")
        if self.workspace is None and is_place(directory):
            with suppress(Forbidden):
                return self.caller.bank(self.root, directory, surface=self.surface)
        return self.bank

    @property
    def whole(self) -> Bank:
        """For what concerns all workspaces at once."""
        self.caller.must(Right.ADMIN)
        self.caller.must_reach_all()
        return self.bank

    @property
    def own(self) -> Bank:
        """The bank from the process's own workspace, in the caller's name."""
        return self.root.seen_by(author=self.caller.name, surface=self.surface)

    @property
    def tokens(self) -> TokenStore:
        return TokenStore(self.root)

    def workspaces(self) -> list[Workspace]:
        """Those that the caller reaches; with their paths where they administer them."""
        return [
            place if self.caller.sees_path(place.id) else replace(place, path=None)
            for place in self.root.workspaces()
            if self.caller.reaches(place.id)
        ]

    def stored(self, which: str) -> Workspace | None:
        """A stored workspace by its id, its name or its full path; what is out of reach is as
        unknown as what does not exist."""
        full = os.path.isabs(os.path.expanduser(which))
        at = exactly_at(self.root.context.read(), which) if full else None
        for place in self.workspaces():
            if which in (place.id, place.name) or place.id == at:
                return place
        return None

    def place(self, id: str) -> Workspace:
        if (place := self.stored(id)) is not None:
            return place
        raise NotFound(
            f"there is no workspace {id[:80]!r} that you reach; GET /workspaces lists them"
        )
