"""Hello: how a caller proves who it is. Pure.

It is signed over the connection's ``binding``, which is made of the key of the one who is called
and of what only this connection has: it is worth nothing on another connection, nor to another
bank.
"""

from __future__ import annotations

import msgspec

from reasonbank.errors import ReasonBankError
from reasonbank.peers.identity import Identity, verify
from reasonbank.peers.wire import VERSION, Hello


class NotWhoItSays(ReasonBankError):
    """The signature of a Hello is not that of its key, or was made for another connection."""


def hello(identity: Identity, binding: bytes, *, name: str, at: int, token: bytes) -> Hello:
    unsigned = Hello(VERSION, identity.key, name, at, token, bytes(64))
    return msgspec.structs.replace(unsigned, signature=identity.sign(_signed(unsigned, binding)))


def caller(said: Hello, binding: bytes) -> bytes:
    """The key of who said it, on the connection with this binding. Raises ``NotWhoItSays``."""
    if not verify(said.key, _signed(said, binding), said.signature):
        raise NotWhoItSays(
            f"the Hello of {said.key.hex()[:8]} was not signed by that key for this connection"
        )
    return said.key


def _signed(said: Hello, binding: bytes) -> bytes:
    return msgspec.msgpack.encode(
        [b"reasonbank hello", binding, said.version, said.key, said.name, said.at, said.token]
    )
