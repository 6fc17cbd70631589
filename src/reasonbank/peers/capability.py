"""Capabilities: what somebody may do here, as a token that its holder can narrow and hand on.

A token is a biscuit: a block signed with the key of the bank that grants, and after it one block
for each time that it was narrowed. The first holds facts; the others hold checks of four shapes and
nothing else, so what is left can be read off, and no program that a stranger wrote is ever run
here: there is no limit of time that a busy machine could run into with an honest token. Names are
written as bytes, for the library prints texts as they are, quotes and all.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import re2
from biscuit_auth import (
    Algorithm,
    Biscuit,
    BiscuitBlockError,
    BiscuitBuilder,
    BiscuitSerializationError,
    BiscuitValidationError,
    BlockBuilder,
    PrivateKey,
    PublicKey,
    UnverifiedBiscuit,
)

from reasonbank.bounded import Bounded
from reasonbank.errors import Refused
from reasonbank.peers.identity import Identity

_ED25519 = Algorithm.Ed25519  # type: ignore[attr-defined]  # The stubs are behind.
_BROKEN = (BiscuitBlockError, BiscuitSerializationError, BiscuitValidationError, ValueError)
LONGEST = 16_384
"""Bytes of a token."""
MOST_BLOCKS = 32
"""Each costs a verification of a signature, of whoever sends a token."""


class Operation(StrEnum):
    READ = "read"
    WRITE = "write"
    TASK = "task"
    STATUS = "status"


class Denied(Refused):
    """``code`` is one word of why: expired, widened, forged, foreign."""

    status = 403

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Capability:
    """What is left of a token after all its blocks."""

    channels: frozenset[str]
    operations: frozenset[Operation]
    spend: int
    """Millionths of a dollar, altogether."""
    expires: int
    """Microseconds, as ``now``."""
    revocation_ids: tuple[str, ...]
    """One for each block, the grant first. To revoke one is to revoke all that was made from it."""
    caps: tuple[int, ...]
    """What may be spent by all together who hold what was made from each block."""


@dataclass(frozen=True)
class Rights:
    """What several capabilities allow: each of them where it says so."""

    held: tuple[Capability, ...]

    def where(self, operation: Operation) -> frozenset[str]:
        return frozenset().union(*(each.channels for each in self.held
                                   if operation in each.operations))  # fmt: skip

    @property
    def channels(self) -> frozenset[str]:
        return frozenset().union(*(each.channels for each in self.held))

    @property
    def operations(self) -> frozenset[Operation]:
        return frozenset().union(*(each.operations for each in self.held))

    @property
    def spend(self) -> int:
        """Altogether: what is spent of one is spent of all."""
        return max(each.spend for each in self.held)

    @property
    def expires(self) -> int:
        return max(each.expires for each in self.held)


def grant(
    identity: Identity,
    *,
    channels: Collection[str],
    operations: Collection[Operation],
    spend: int,
    expires: int,
) -> bytes:
    facts = BiscuitBuilder()
    facts.add_code("bank({key})", {"key": identity.key})
    for channel in sorted(set(channels)):
        facts.add_code("channel({name})", {"name": channel.encode()})
    for operation in sorted(set(operations)):
        facts.add_code("operation({name})", {"name": operation.encode()})
    facts.add_code("spend({most})", {"most": spend})
    facts.add_code("expires({at})", {"at": expires})
    key = PrivateKey.from_bytes(identity.seed, _ED25519)  # type: ignore[call-arg]
    return _short(bytes(facts.build(key).to_bytes()))


def narrowed(
    token: bytes,
    *,
    channels: Collection[str] | None = None,
    operations: Collection[Operation] | None = None,
    spend: int | None = None,
    expires: int | None = None,
) -> bytes:
    """At most this of what is left; None leaves it as it is. Needs nobody but the token itself."""
    opened = _opened(token, _bank_of(token))
    left = _left(opened)
    checks = []
    if channels is not None:
        checks.append(_among("channel", left.channels.intersection(channels)))
    if operations is not None:
        checks.append(_among("operation", left.operations.intersection(operations)))
    if spend is not None:
        checks.append(_at_most("spend", min(spend, left.spend)))
    if expires is not None:
        checks.append(_at_most("time", min(expires, left.expires)))
    return _short(bytes(opened.append(BlockBuilder(";".join(checks))).to_bytes()))


def _among(kind: str, names: Collection[str]) -> str:
    listed = ", ".join(f"hex:{name.encode().hex()}" for name in sorted(names))
    return f"check if {kind}($x), [{listed}].contains($x)"


def _at_most(kind: str, number: int) -> str:
    return f"check if {kind}($x), $x <= {number}"


_verified: Bounded[bytes, Capability] = Bounded(1000)


def read(token: bytes, root_key: bytes, now: int) -> Capability:
    """What whoever shows it may do at the bank with this key. Raises ``Denied``."""
    capability = at_any_time(token, root_key)
    if now > capability.expires:
        raise Denied("expired", "this capability has expired; ask the bank for a new one")
    return capability


def at_any_time(token: bytes, root_key: bytes) -> Capability:
    """What it allows until it expires, whether or not it has."""
    name = hashlib.sha256(root_key + token).digest()
    if (capability := _verified.get(name)) is None:
        capability = _left(_opened(token, root_key))
        _verified.put(name, capability)
    return capability


def revocation_ids(token: bytes) -> tuple[str, ...]:
    """Also of a token that nobody has verified."""
    return tuple(_unverified(token).revocation_ids)


def _short(token: bytes) -> bytes:
    if len(token) > LONGEST:
        raise Denied("forged", f"a capability of {len(token):,} bytes is too long")
    return token


def _unverified(token: bytes) -> UnverifiedBiscuit:
    try:
        return UnverifiedBiscuit.from_base64(urlsafe_b64encode(_short(token)).decode())
    except _BROKEN:
        raise Denied("forged", "this is no capability") from None


def _bank_of(token: bytes) -> bytes:
    """Who says to have granted it."""
    try:
        said = _BANK.match(_unverified(token).block_source(0))
    except BiscuitBlockError:
        raise Denied("forged", "this is no capability") from None
    if said is None:
        raise Denied("forged", "this capability does not say which bank granted it")
    return bytes.fromhex(_even(said[1]))


def _opened(token: bytes, root_key: bytes) -> Biscuit:
    if (bank := _bank_of(token)) != root_key:
        raise Denied("foreign", f"this capability was granted by {bank.hex()[:8]}, not here")
    try:
        key = PublicKey.from_bytes(root_key, _ED25519)  # type: ignore[call-arg]
        opened = Biscuit.from_bytes(token, key)
    except _BROKEN:
        raise Denied("forged", "the signatures of this capability are not right") from None
    if opened.block_count() > MOST_BLOCKS:
        raise Denied("forged", f"a capability cannot be narrowed {opened.block_count():,} times")
    return opened


_BYTES = r"hex:([0-9a-f]*)"
_BANK = re2.compile(rf"bank\({_BYTES}\);\n")
_FACT = re2.compile(rf"(channel|operation)\({_BYTES}\)|(spend|expires)\((-?[0-9]+)\)")
_CHECK = re2.compile(
    r"check if (channel|operation)\(\$x\), \[([hex:0-9a-f, ]*)\]\.contains\(\$x\)"
    r"|check if (spend|time)\(\$x\), \$x <= (-?[0-9]+)"
)


def _left(token: Biscuit) -> Capability:
    channels, operations, numbers = _granted(token.block_source(0))
    spend, expires = numbers["spend"], numbers["expires"]
    caps = [spend]
    for block in range(1, token.block_count()):
        if token.block_external_key(block) is not None:
            _widened(block, "it is signed by a third party")
        for line in _lines(token.block_source(block)):
            if (check := _CHECK.fullmatch(line)) is None:
                _widened(block, f"it says {line[:80]!r}")
            kind, names, limit, number = check.groups()
            if kind == "channel":
                channels = _fewer(block, channels, names)
            elif kind == "operation":
                operations = _fewer(block, operations, names)
            elif limit == "spend":
                spend = _less(block, spend, int(number))
            else:
                expires = _less(block, expires, int(number))
        caps.append(spend)
    return Capability(
        channels,
        frozenset(Operation(name) for name in operations if name in set(Operation)),
        spend,
        expires,
        tuple(token.revocation_ids),
        tuple(caps),
    )


def _granted(source: str) -> tuple[frozenset[str], frozenset[str], dict[str, int]]:
    names: dict[str, set[str]] = {"channel": set(), "operation": set()}
    numbers: dict[str, int] = {}
    _, *facts = _lines(source)
    for line in facts:
        if (fact := _FACT.fullmatch(line)) is None:
            raise Denied("forged", f"this capability grants what nobody here knows: {line[:80]!r}")
        kind, name, limit, number = fact.groups()
        if kind is not None:
            names[kind].add(_text(name))
        else:
            numbers[limit] = int(number)
    if numbers.keys() != {"spend", "expires"}:
        raise Denied("forged", "this capability does not say how much, or until when")
    return frozenset(names["channel"]), frozenset(names["operation"]), numbers


def _lines(source: str) -> list[str]:
    return [line for line in source.split(";\n") if line.strip()]


def _even(digits: str) -> str:
    if len(digits) % 2:
        raise Denied("forged", "a name in this capability is cut in half")
    return digits


def _text(name: str) -> str:
    try:
        return bytes.fromhex(name).decode()
    except ValueError:
        raise Denied("forged", f"a name in this capability is no text: {name[:80]}") from None


def _fewer(block: int, before: frozenset[str], said: str) -> frozenset[str]:
    after = frozenset(_text(name.removeprefix("hex:")) for name in said.split(", ") if name)
    if not after <= before:
        _widened(block, f"it adds {', '.join(sorted(after - before))[:80]!r}")
    return after


def _less(block: int, before: int, after: int) -> int:
    if after > before:
        _widened(block, f"it raises {before} to {after}")
    return after


def _widened(block: int, why: str) -> NoReturn:
    raise Denied("widened", f"block {block} of this capability does not narrow it: {why}")
