"""Who calls, and how far they reach: made at the door from a token, never from a payload.

Bearer tokens are made, checked and revoked here; the ledger keeps only their digests.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reasonbank import private
from reasonbank.bank import Bank
from reasonbank.errors import (
    BudgetExhausted,
    Forbidden,
    InvalidInput,
    NotFound,
    Refused,
    StorageError,
    Unauthorized,
)
from reasonbank.fields import choice, text, whole
from reasonbank.ledger.events import EventType, hand
from reasonbank.ledger.port import Ledger, Reading, Token, Writing
from reasonbank.model import Principal, Right, Scope, from_micros
from reasonbank.store import workspaces
from reasonbank.store.meters import SPENDING, TOTAL

if TYPE_CHECKING:
    from reasonbank.llm.budget import Account

_ID = re.compile(r"[0-9a-f]{16}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


class Permission(StrEnum):
    """What a token may do beyond its scope."""

    SHARE_TEAM = "share-team"
    SHARE_ORG = "share-org"


_WIDER = {Permission.SHARE_TEAM: Scope.TEAM, Permission.SHARE_ORG: Scope.ORG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """``workspaces`` are ids; None reaches all. ``name`` is the author of what is written."""

    name: str | None = None
    right: Right = Right.ADMIN
    workspaces: tuple[str, ...] | None = None
    may: tuple[Permission, ...] = ()
    local: bool = False
    account: Account | None = None
    """What it may spend on the model; None is not limited."""
    acts_for: str | None = None
    """Who made their token, where that was no person: they are one hand."""
    at_the_page: bool = False
    """A person, whom a code from this machine let in."""

    @property
    def whole(self) -> bool:
        """Whether they look after the whole bank."""
        return not self.local and self.right is Right.ADMIN and self.workspaces is None

    @property
    def may_share(self) -> frozenset[Scope]:
        if self.local or self.whole:
            return frozenset(Scope)
        return frozenset({Scope.PROJECT, *(_WIDER[permission] for permission in self.may)})

    def must(self, right: Right) -> None:
        if not self.right.includes(right):
            raise Forbidden(f"this needs a token with scope {right}; yours has {self.right}")

    def must_reach_all(self) -> None:
        if self.workspaces is not None:
            raise Forbidden(
                "this concerns the whole bank, and your token is bound to workspaces; use one "
                "made without --workspace"
            )

    def reaches(self, workspace: str) -> bool:
        return self.workspaces is None or workspace in self.workspaces

    def sees_path(self, workspace: str) -> bool:
        """Where a project lies on this machine is told to who administers it."""
        return self.right is Right.ADMIN and self.reaches(workspace)

    def bank(self, bank: Bank, workspace: str | None, *, surface: str | None = None) -> Bank:
        """``bank`` as this caller sees it, from the workspace asked for or their own."""
        if workspace:
            id, path = _named(bank, workspace, among=self.workspaces)
        elif self.workspaces and bank.view.workspace not in self.workspaces:
            id, path = self._only(self.workspaces), None
        else:
            id, path = bank.view.workspace, None
        id = bank.context.read().home(id)
        if not self.reaches(id):
            raise Forbidden(f"your token does not reach workspace {workspace or id}")
        return Bank(bank.context.seen_by(
            workspace=id, path=path, author=self.name, identity=self.acts_for,
            surface=surface, right=self.right,
            whole=self.whole, may_share=self.may_share, account=self.account,
            reaches=None if self.workspaces is None else frozenset(self.workspaces),
        ))  # fmt: skip

    def _only(self, workspaces: tuple[str, ...]) -> str:
        if len(workspaces) > 1:
            raise InvalidInput(
                "workspace", f"is missing; your token reaches {', '.join(workspaces)}: name one"
            )
        return workspaces[0]


LOCAL = Caller(local=True)
"""Whoever runs on this machine, as this user."""


def _named(bank: Bank, workspace: str, *, among: tuple[str, ...] | None) -> tuple[str, str | None]:
    """The id, and the path if that was given: a full path, an id, or a name."""
    reading = bank.store.ledger.read()
    workspace = text(workspace, "workspace", 4096)
    if os.path.isabs(os.path.expanduser(workspace)):
        project = workspaces.project_of(reading, workspace, among=among)
        return project.id, project.path
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


# Tokens

DAY = 86_400_000_000
# The prefix lets secret scanners recognise a token; the id finds its row without a scan.
_FORM = re.compile(r"rbk_([0-9a-f]{12})_([0-9a-f]{64})").fullmatch
# When a token was last used is written at most so often: it is for people, not for audits.
COARSE = 3_600_000_000
MOST_TOKENS = 10_000
MOST_SPENT = 1_000_000_000_000
# The meters that hold what a token may spend, and what it has.
CAP, SPENT = f"{SPENDING}cap.", f"{SPENDING}spent."
# Who made a token tells that of the server's owner from one that a person called the same.
OWNER, OWNERS_MAKER = "owner", "reasonbank serve"
AGENTS = hand(Principal.AGENT, "")
"""What the maker of a token begins with that no person made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """What is known of a token, without its secret."""

    id: str
    name: str
    scope: Right
    workspaces: tuple[str, ...] | None
    may: tuple[Permission, ...]
    state: Literal["valid", "expired", "revoked"]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used: datetime | None
    revoked_at: datetime | None
    max_tokens: int | None
    """How many tokens of a model it may spend in all; None is not limited."""
    spent_tokens: int
    """Counted only where there is a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken(StoredToken):
    token: str
    """The secret, told this once only."""


@dataclass(frozen=True, slots=True)
class OwnersToken:
    secret: str = field(repr=False)
    file: Path

    @property
    def id(self) -> str:
        return self.secret.split("_")[1]


class TokenStore:
    """The tokens of a bank."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._ledger = bank.store.ledger
        self._clock = bank.store.clock

    @property
    def for_others(self) -> bool:
        """Whether any was ever made besides the owner's."""
        return not all(map(_is_owners, self._ledger.read().tokens()))

    def create(
        self,
        *,
        scope: str,
        workspaces: Sequence[str] | None = None,
        name: str | None = None,
        expires_days: int | None = None,
        may: Sequence[str] = (),
        max_tokens: int | None = None,
        by: Bank | None = None,
    ) -> NewToken:
        """A new token, with the secret that is told this once only; ``by`` is who makes it."""
        by = by or self._bank
        if by.context.surface == "cli" and by.context.principal is not Principal.PERSON:
            raise Forbidden(
                "only a person makes tokens: whoever has another is another, who could confirm "
                "what you wrote; ask for one to be made in a terminal of their own"
            )
        right = choice(Right, scope, "scope")
        if workspaces is not None and not workspaces:
            raise InvalidInput("workspaces", "is empty; name at least one, or leave it out")
        id, key = secrets.token_hex(6), secrets.token_hex(32)
        most = self._bank.settings.limits.label
        now = self._clock()
        days = (
            None if expires_days is None else whole(expires_days, "expires", least=1, most=36_500)
        )
        spendable = (
            None if max_tokens is None
            else whole(max_tokens, "max_tokens", least=0, most=MOST_SPENT)
        )  # fmt: skip
        token = Token(
            id=id,
            name=by.context.fit_name(
                text(f"token {id}" if name is None else name, "name", most, strip=True), most
            ),
            scope=str(right),
            workspaces=self._ids(workspaces),
            may=tuple(dict.fromkeys(str(choice(Permission, each, "may")) for each in may)),
            digest=_digest(key),
            created_at=now,
            created_by=by.author if by.context.principal is Principal.PERSON else by.context.hand,
            expires_at=None if days is None else now + days * DAY,
        )

        def work(txn: Writing) -> None:
            known = txn.tokens()
            if len(known) >= MOST_TOKENS:
                raise InvalidInput("tokens", f"there are {MOST_TOKENS:,} already; that is the most")
            if any(t.name == token.name and self._live(t) for t in known):
                raise InvalidInput(
                    "name", f"{token.name!r} is taken by a token that is still valid"
                )
            txn.put_token(token)
            if spendable is not None:
                # One more: what was never limited has no such meter, and 0 is a limit too.
                txn.add_meters([(f"{CAP}{token.id}", TOTAL, spendable + 1)])
            by.context.note(txn, EventType.ADMITTED, token.id, token.seal)

        self._ledger.write(work)
        return NewToken(**self._facts(token), token=f"rbk_{id}_{key}")

    def _ids(self, workspaces: Iterable[str] | None) -> tuple[str, ...] | None:
        if workspaces is None:
            return None
        return tuple(dict.fromkeys(workspace_id(self._bank, place) for place in workspaces))

    def _live(self, token: Token) -> bool:
        return token.revoked_at is None and not self._expired(token)

    def _expired(self, token: Token) -> bool:
        return token.expires_at is not None and token.expires_at <= self._clock()

    def caller(self, secret: str) -> tuple[Caller, Token]:
        """Whoever shows this secret; an error that says what is wrong with it."""
        token = self._shown(secret, self._ledger.read())
        return self._caller(token), token

    def caller_of(self, id: str) -> tuple[Caller, Token]:
        """Whoever was let in by this token before: as long as it is valid."""
        token = self._ledger.read().token(id)
        if token is None:
            raise Unauthorized("the token that you signed in with is gone; ask for another")
        return self._caller(self._valid(token)), token

    def _caller(self, token: Token) -> Caller:
        return Caller(
            # The owner signs as from the command line.
            name=None if _is_owners(token) else token.name,
            right=Right(token.scope),
            workspaces=token.workspaces,
            may=tuple(map(Permission, token.may or ())),
            account=TokenAccount(self._ledger, token.id),
            acts_for=token.created_by.removeprefix(AGENTS) if _is_an_agents(token) else None,
        )

    def _shown(self, secret: str, reading: Reading) -> Token:
        found = _FORM(secret)
        token = reading.token(found[1]) if found else None
        # In constant time: how long a refusal takes must not tell how much was right.
        known = hmac.compare_digest(
            token.digest if token else bytes(32), _digest(found[2] if found else "")
        )
        if token is None or not known:
            raise Unauthorized(
                "this token is not known here; `reasonbank token create` makes one, and "
                "`reasonbank token list` shows those there are"
            )
        return self._valid(token)

    def _valid(self, token: Token) -> Token:
        if token.revoked_at is not None:
            raise Unauthorized(f"token {token.id} was revoked; ask for another")
        if self._expired(token):
            raise Unauthorized(f"token {token.id} has expired; ask for another")
        return token

    def owners(self) -> OwnersToken | None:
        """The token of whoever runs the server, and the private file that keeps it.

        It is made if there is none, or none that is valid; one whose file was lost is revoked.
        Servers that start at once agree on one; those of another machine or user have their own.
        ``None`` for a bank that has no files.
        """
        if (bank := self._ledger.beside) is None:
            return None
        file = bank.with_name(f"{bank.name}.owner-token")
        if secret := self._kept(file, self._ledger.read()):
            return OwnersToken(secret, file)

        def work(txn: Writing) -> str:
            # Nobody else is in here: whoever waited finds what the other one made.
            return self._kept(file, txn) or self._renewed(txn, file)

        return OwnersToken(self._ledger.write(work), file)

    def _kept(self, file: Path, reading: Reading) -> str | None:
        """The secret in the file, if it still opens the bank as its owner."""
        try:
            secret = (private.read(file) or "").strip()
        except PermissionError as error:
            raise Refused(
                f"{file}, with the token of this bank's owner, {error}; delete it and start "
                "again, which makes a new token and revokes that one"
            ) from None
        try:
            return secret if _is_owners(self._shown(secret, reading)) else None
        except Unauthorized:
            return None

    def _renewed(self, txn: Writing, file: Path) -> str:
        known = [token for token in txn.tokens() if self._live(token)]
        name = self._owners_name()
        mine = [t for t in known if _is_owners(t) and f"{t.name} ".startswith(f"{name} ")]
        for token in mine:
            txn.put_token(replace(token, revoked_at=self._clock()))
            self._bank.context.note(txn, EventType.REVOKED, token.id)
        id, key = secrets.token_hex(6), secrets.token_hex(32)
        taken = any(token.name == name and not _is_owners(token) for token in known)
        made = Token(
            id=id, name=f"{name} {id}" if taken else name, scope=str(Right.ADMIN),
            workspaces=None, may=(), digest=_digest(key), created_at=self._clock(),
            created_by=OWNERS_MAKER, expires_at=None,
        )  # fmt: skip
        txn.put_token(made)
        self._bank.context.note(txn, EventType.ADMITTED, id, made.seal)
        secret = f"rbk_{id}_{key}"
        try:
            # If the transaction fails after this, the file opens nothing and is written again.
            private.replace(file, f"{secret}\n")
        except OSError as error:
            raise StorageError(
                f"cannot keep the owner's token in {file}: {error.strerror}; see that you may "
                "write there"
            ) from None
        return secret

    def _owners_name(self) -> str:
        """A bank on a server has an owner's token for each machine that serves it."""
        if self._ledger.path is not None:
            return OWNER
        import platform

        return f"{OWNER} at {platform.node()[:64] or 'a machine without a name'}"

    def used(self, token: Token) -> bool:
        """Whether it is time to note that the token was used (see ``note_use``)."""
        return token.last_used is None or self._clock() - token.last_used > COARSE

    def note_use(self, token: Token) -> None:
        def work(txn: Writing) -> None:
            if (now := txn.token(token.id)) is not None:
                txn.put_token(replace(now, last_used=self._clock()))

        self._ledger.write(work)

    def list(self) -> list[StoredToken]:
        reading = self._ledger.read()
        spending = _spending(reading)
        return [StoredToken(**self._facts(token, spending)) for token in reading.tokens()]

    def revoke(self, id: str, *, by: Bank | None = None) -> StoredToken:
        """It opens nothing from now on; its row stays. Twice changes nothing."""

        def work(txn: Writing) -> Token:
            token = txn.token(id)
            if token is None:
                raise NotFound(f"there is no token {id[:80]!r}; `reasonbank token list` shows all")
            if token.revoked_at is None:
                token = replace(token, revoked_at=self._clock())
                txn.put_token(token)
                (by or self._bank).context.note(txn, EventType.REVOKED, token.id)
            return token

        return self.told(self._ledger.write(work))

    def told(self, token: Token) -> StoredToken:
        """What may be said of a token: everything but its digest."""
        return StoredToken(**self._facts(token))

    def _facts(self, token: Token, spending: dict[str, int] | None = None) -> dict[str, Any]:
        if spending is None:
            spending = _spending(self._ledger.read())
        cap = spending.get(f"{CAP}{token.id}")

        def moment(at: int | None) -> Any:
            return None if at is None else from_micros(at)

        return {
            "id": token.id,
            "name": token.name,
            "scope": Right(token.scope),
            "workspaces": token.workspaces,
            "may": tuple(map(Permission, token.may or ())),
            "state": "revoked" if token.revoked_at is not None
            else "expired" if self._expired(token) else "valid",
            "created_at": moment(token.created_at),
            "created_by": token.created_by.removeprefix(AGENTS),
            "expires_at": moment(token.expires_at),
            "last_used": moment(token.last_used),
            "revoked_at": moment(token.revoked_at),
            "max_tokens": None if cap is None else cap - 1,
            "spent_tokens": spending.get(f"{SPENT}{token.id}", 0),
        }  # fmt: skip


class TokenAccount:
    """What one token may spend on the model; a token without a limit spends without counting."""

    def __init__(self, ledger: Ledger, id: str) -> None:
        self._ledger = ledger
        self._id = id

    def reserve(self, least: int, most: int) -> int:
        # The limit of a token never changes: who has none costs no transaction.
        if f"{CAP}{self._id}" not in _spending(self._ledger.read()):
            return most

        def work(txn: Writing) -> int:
            spending = _spending(txn)
            cap, spent = spending[f"{CAP}{self._id}"] - 1, spending.get(f"{SPENT}{self._id}", 0)
            if cap - spent < least:
                raise BudgetExhausted(
                    f"the call needs about {least:,} tokens, and of the {cap:,} that token "
                    f"{self._id} may spend (max_tokens) {max(0, cap - spent):,} are left; ask "
                    "for another token, or wait for what is being worked on",
                    what=f"the {cap:,} tokens of token {self._id} (max_tokens) are used up",
                )
            granted = min(most, cap - spent)
            txn.add_meters([(f"{SPENT}{self._id}", TOTAL, granted)])
            return granted

        return self._ledger.write(work)

    def settle(self, reserved: int, used: int) -> None:
        if f"{CAP}{self._id}" in _spending(self._ledger.read()):
            left = [(f"{SPENT}{self._id}", TOTAL, used - reserved)]
            self._ledger.write(lambda txn: txn.add_meters(left))


def _spending(reading: Reading) -> dict[str, int]:
    return {name: amount for name, _, amount in reading.meters() if name.startswith(SPENDING)}


def _is_an_agents(token: Token) -> bool:
    """Whether no person made it: whoever has two tokens must not confirm with one what they
    wrote with the other."""
    return token.created_by.startswith(AGENTS)


def _is_owners(token: Token) -> bool:
    whole = token.scope == Right.ADMIN and token.workspaces is None
    return whole and token.created_by == OWNERS_MAKER


def _digest(key: str) -> bytes:
    # A plain hash is right here: the key is 256 random bits, which nobody guesses however
    # fast they can hash; slow hashes are for passwords.
    return hashlib.sha256(key.encode()).digest()
