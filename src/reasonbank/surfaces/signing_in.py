"""How a browser comes in: a code that works once becomes a session, and a session is a cookie.

A code is for whoever can read the files beside the bank, as its owner's token is. What is kept
of it is a private file whose name is its hash: all processes of this machine know it, and whoever
removes that file has used it. A session is a sealed cookie that names the token it stands for:
every server of the bank can check it, and it opens no more than that token does at this moment.
"""

from __future__ import annotations

import glob
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from reasonbank import private
from reasonbank.access import TokenStore
from reasonbank.bank import Bank
from reasonbank.errors import Refused, StorageError, Unauthorized
from reasonbank.model import Principal
from reasonbank.values import valueclass

SECOND = 1_000_000
CODE_SECONDS = 600
FIRST_CODE_SECONDS = 3600
"""Of the address that a server prints: whoever started it may be busy with something else."""
SESSION_SECONDS = 30 * 86_400
_CODE = re.compile(r"[0-9a-f]{32}").fullmatch
_SESSION = re.compile(
    r"([0-9a-f]{12})\.(person|holder)\.([0-9]{16})\.[0-9a-f]{32}\.[0-9a-f]{64}"
).fullmatch


@valueclass(frozen=True, slots=True, kw_only=True)
class Session:
    """``token`` is the id of the token that it stands for; ``expires`` in microseconds since 1970.

    ``person``: it began with a code, as a person has it. Whoever shows a token may be a program.
    """

    token: str
    person: bool
    expires: int
    cookie: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.cookie.encode()).hexdigest()[:32]


class SigningIn:
    """For one bank; ``cookie`` is the name under which a browser keeps its session."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._clock = bank.store.clock
        # Cookies do not tell the ports of a machine apart, on which other banks may be served.
        self.cookie = f"reasonbank-{bank.store.ledger.bank_id[:8]}"

    def new_code(self, seconds: int = CODE_SECONDS) -> str:
        """It lets the owner in, once."""
        owner = TokenStore(self._bank).owners()
        if owner is None:
            raise Refused("this bank has no place for an owner's token; sign in with a token")
        self._sweep()
        code = secrets.token_hex(16)
        expires = self._clock() + seconds * SECOND
        self._leave("code", _digest(code), f"{owner.id} {expires}")
        return code

    def redeem(self, code: str) -> Session:
        """What the code is worth; of several who show it at once, only one gets that."""
        told = self._taken("code", _digest(code)) if _CODE(code) else None
        token, _, expires = (told or "").partition(" ")
        if not expires.isdecimal() or int(expires) <= self._clock():
            raise Unauthorized(
                "this code was used already, or is too old; `reasonbank open` makes another"
            )
        return self.session_for(token, person=True)

    def session(self, tokens: TokenStore, *, code: str = "", token: str = "") -> Session:
        """For a code or a token; an error that says what is wrong with it."""
        if code:
            return self.redeem(code)
        return self.session_for(tokens.caller(token.strip())[1].id)

    def session_for(self, token: str, *, person: bool = False) -> Session:
        expires = self._clock() + SESSION_SECONDS * SECOND
        whose = "person" if person else "holder"
        told = f"{token}.{whose}.{expires:016d}.{secrets.token_hex(16)}"
        return Session(
            token=token, person=person, expires=expires, cookie=f"{told}.{self._sealed(told)}"
        )

    def shown(self, cookie: str) -> Session:
        """The session of a cookie that was given here, has not run out and was not ended."""
        found = _SESSION(cookie)
        told, _, seal = cookie.rpartition(".")
        if found is None or not hmac.compare_digest(seal, self._sealed(told)):
            raise Unauthorized("you are not signed in; paste a token, or run `reasonbank open`")
        session = Session(
            token=found[1], person=found[2] == "person", expires=int(found[3]), cookie=cookie
        )
        if session.expires <= self._clock() or self._is_left("ended", session.digest):
            raise Unauthorized("you were signed out; paste a token, or run `reasonbank open`")
        return session

    def end(self, session: Session) -> None:
        """On this machine at once; where there is no place to note it, only in the browser."""
        if self._folder is not None:
            self._leave("ended", session.digest, f"{session.token} {session.expires}")

    def _sealed(self, told: str) -> str:
        key = hashlib.sha256(b"page\0" + self._bank.store.ledger.seal.encode()).digest()
        return hmac.new(key, told.encode(), hashlib.sha256).hexdigest()

    # Slips of paper beside the bank

    @property
    def _folder(self) -> Path | None:
        return self._bank.store.ledger.beside

    def _slip(self, kind: str, digest: str) -> Path:
        assert self._folder is not None
        return self._folder.with_name(f"{self._folder.name}.{kind}-{digest}")

    def _leave(self, kind: str, digest: str, text: str) -> None:
        try:
            with open(private.make_file(self._slip(kind, digest)), "w") as file:
                file.write(text)
        except FileExistsError:
            return  # Ended twice.
        except OSError as error:
            raise StorageError(f"cannot write beside the bank: {error.strerror}") from None

    def _is_left(self, kind: str, digest: str) -> bool:
        return self._folder is not None and self._slip(kind, digest).exists()

    def _taken(self, kind: str, digest: str) -> str | None:
        if self._folder is None:
            return None
        slip = self._slip(kind, digest)
        try:
            told = private.read(slip)
            os.unlink(slip)
        except (PermissionError, FileNotFoundError):
            return None
        return told

    def _sweep(self) -> None:
        """Take away what has run out."""
        for slip in self._slips():
            with suppress(OSError):
                expires = (private.read(slip) or "").rpartition(" ")[2]
                if expires.isdecimal() and int(expires) <= self._clock():
                    slip.unlink(missing_ok=True)

    def _slips(self) -> Iterator[Path]:
        if (beside := self._folder) is not None:
            for kind in ("code", "ended"):
                yield from beside.parent.glob(f"{glob.escape(beside.name)}.{kind}-*")


def _digest(code: str) -> str:
    # The code is random: nobody finds it from its hash.
    return hashlib.sha256(code.encode()).hexdigest()[:32]


def address_of(bank: Bank, address: str, *, seconds: int = CODE_SECONDS, path: str = "/") -> str:
    """The page with a fresh code; after the `#`, a browser sends it to nobody. An agent gets none:
    whoever shows it is taken for a person."""
    if bank.context.acts_as is Principal.AGENT:
        return f"{address}{path}"
    return f"{address}{path}#code={SigningIn(bank).new_code(seconds)}"
