"""Who calls, and how far they reach: made at the door from a token, never from a payload."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum

from reasonbank.bank import Bank
from reasonbank.errors import Forbidden, InvalidInput
from reasonbank.fields import text
from reasonbank.store import workspaces


class Right(StrEnum):
    """What a caller may do; each includes the one before."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


_ORDER = tuple(Right)
_ID = re.compile(r"[0-9a-f]{16}").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """``workspaces`` are ids; None reaches all. ``name`` is the author of what is written."""

    name: str | None = None
    right: Right = Right.ADMIN
    workspaces: tuple[str, ...] | None = None

    def must(self, right: Right) -> None:
        if _ORDER.index(self.right) < _ORDER.index(right):
            raise Forbidden(f"this needs a token with scope {right}; yours has {self.right}")

    def must_reach_all(self) -> None:
        if self.workspaces is not None:
            raise Forbidden(
                "this concerns the whole bank, and your token is bound to workspaces; use one "
                "made without --workspace"
            )

    def reaches(self, workspace: str) -> bool:
        return self.workspaces is None or workspace in self.workspaces

    def bank(self, bank: Bank, workspace: str | None, *, surface: str | None = None) -> Bank:
        """``bank`` as this caller sees it, from the workspace asked for or their own."""
        if workspace:
            id, path = _named(bank, workspace, among=self.workspaces)
        elif self.workspaces and bank.view.workspace not in self.workspaces:
            id, path = self._only(self.workspaces), None
        else:
            id, path = bank.view.workspace, None
        if not self.reaches(id):
            raise Forbidden(f"your token does not reach workspace {workspace or id}")
        return bank.seen_by(workspace=id, path=path, author=self.name, surface=surface)

    def _only(self, workspaces: tuple[str, ...]) -> str:
        if len(workspaces) > 1:
            raise InvalidInput(
                "workspace", f"is missing; your token reaches {', '.join(workspaces)}: name one"
            )
        return workspaces[0]


LOCAL = Caller()
"""Whoever runs on this machine, as this user."""


def _named(bank: Bank, workspace: str, *, among: tuple[str, ...] | None) -> tuple[str, str | None]:
    """The id, and the path if that was given: a full path, an id, or a name."""
    reading = bank.core.ledger.read()
    workspace = text(workspace, "workspace", 4096)
    if os.path.isabs(os.path.expanduser(workspace)):
        path = workspaces.path_of(workspace)
        return workspaces.at(reading, path), path
    if _ID(workspace):
        return workspace, None
    # Names that exist elsewhere are as unknown to a bound caller as names that do not exist.
    if (id := reading.workspace_named(workspace)) and (among is None or id in among):
        return id, None
    raise InvalidInput(
        "workspace",
        f"{workspace[:80]!r} is not an absolute path, nor the id or name of a workspace; give "
        "the project's full path, or leave it out",
    )


def workspace_id(bank: Bank, workspace: str) -> str:
    """The id of a workspace given by its full path, its id or its name."""
    return _named(bank, workspace, among=None)[0]
