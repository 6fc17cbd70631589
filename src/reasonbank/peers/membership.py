"""Who belongs together: invitations, what each may do, and how somebody is cut off again."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec

from reasonbank.errors import Forbidden, InvalidInput, NotFound, ReasonBankError
from reasonbank.ledger.events import EventType, hand
from reasonbank.ledger.port import Invitation, Peer, Writing, Written
from reasonbank.model import JSON, Principal, from_micros
from reasonbank.peers import capability
from reasonbank.peers.adopt import told_by
from reasonbank.peers.capability import Capability, Operation
from reasonbank.peers.identity import Identity
from reasonbank.peers.logs import LedgerLogs
from reasonbank.peers.publish import PROJECT
from reasonbank.store.context import Context
from reasonbank.store.revert import Reverted, take_back

PREFIX = "rbp_"
EVERYWHERE = ("0.0.0.0", "[::]")  # nosec B104  # what is listened at, not what is called
LISTEN = "0.0.0.0:7433"
"""Where a bank waits for others, over UDP, unless `peer init` says otherwise."""
DAY = 86_400_000_000
OPERATIONS = frozenset(Operation)
ID = 16
"""Digits of a key, or of an invitation, that the audit names it by."""
LASTS = 3650 * DAY
"""What a bank grants one that it joined itself; `peer revoke` ends it."""


CUT_OFF = "this bank was cut off here; ask for a new invitation, and join with it"


class NotInvited(Forbidden):
    """Whoever calls is not known here, or no longer welcome."""


class Pasted(msgspec.Struct, frozen=True, array_like=True):
    """What is in an invitation: where to call, who answers there, and what whoever comes may do."""

    address: str
    key: bytes
    token: bytes
    channels: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invited:
    invitation: str
    """To be pasted."""
    id: str
    channels: tuple[str, ...]
    address: str
    expires_at: int


def identity_of(context: Context) -> Identity:
    return Identity.of(context.store.ledger.seal)


def name_of(context: Context) -> str:
    return context.read().peers.state("name") or context.author


def listens_at(context: Context) -> str:
    return context.read().peers.state("listen") or LISTEN


def introduce(
    context: Context, *, name: str | None, listen: str | None, address: str | None
) -> None:
    """What this bank is called by others, where it waits for them, and where they reach it."""
    must_be_a_person(context)
    told = {"name": name, "listen": listen, "address": address}

    def work(txn: Writing) -> None:
        for key, value in told.items():
            if value is not None:
                txn.peers.set_state(key, value)

    context.write(work)


def address_of(context: Context) -> str:
    """Where others reach this bank: as it was told, else by this machine's own address."""
    if known := context.read().peers.state("address"):
        return known
    listen = listens_at(context)
    host, _, port = listen.rpartition(":")
    return f"{_own_host()}:{port}" if host in EVERYWHERE else listen


def _own_host() -> str:
    """The address that this machine would call others from; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def about(context: Context) -> JSON:
    """What others know of this bank."""
    channels = sorted({
        channel
        for peer in context.read().peers.all()
        if peer.revoked_at is None
        for channel in _channels(context, peer)
    })  # fmt: skip
    return {
        "name": name_of(context), "key": identity_of(context).key.hex(),
        "address": address_of(context), "channels": channels,
    }  # fmt: skip


def listed(context: Context) -> list[JSON]:
    """The banks that this one knows, and how they are as far as they said."""
    reading = context.read().peers
    logs = reading.logs()
    found = []
    for peer in reading.all():
        told = json.loads(reading.state(f"status {peer.key}") or "{}")
        forked = any(log.fork is not None for log in logs if log.key == peer.key)
        found.append({
            "name": peer.name, "key": peer.key, "address": peer.address,
            "state": "cut off" if peer.revoked_at else "two stories" if forked
            else "trusted" if peer.trusted else "on probation",
            "channels": _channels(context, peer),
            "entries": sum(log.length for log in logs if log.key == peer.key),
            "brought": sum(log.length for log in logs if log.via == peer.key),
            "hand": hand_of(peer.key), "waiting": reading.waiting(hand_of(peer.key)),
            "memories": told.get("memories"), "version": told.get("version"),
            "load": told.get("load"),
            "added_at": str(from_micros(peer.added_at)),
            "seen_at": None if peer.seen_at is None else str(from_micros(peer.seen_at)),
        })  # fmt: skip
    return found


def open_invitations(context: Context) -> list[Invitation]:
    """Those that somebody may still come with."""
    return [
        each
        for each in context.read().peers.invitations()
        if each.taken_by is None and each.revoked_at is None and each.expires_at >= context.now()
    ]


def _channels(context: Context, peer: Peer) -> list[str]:
    try:
        return sorted(may(context, None, peer).channels)
    except ReasonBankError:
        return []


def reachable(context: Context, names: Collection[str]) -> list[Peer]:
    chosen = [find(context, name) for name in names] or context.read().peers.all()
    return [peer for peer in chosen if peer.address and peer.revoked_at is None]


def must_know_projects(context: Context, pasted: Pasted) -> None:
    """What is shared as a project must be one here."""
    known = context.read().peers.projects()
    for channel in pasted.channels:
        name = channel.removeprefix(PROJECT)
        if channel.startswith(PROJECT) and name not in known:
            raise InvalidInput(
                "project", f"{name!r} is shared; go to its folder and join with --project {name}"
            )


def invite(
    context: Context,
    *,
    address: str,
    channels: Collection[str],
    name: str | None = None,
    operations: Collection[Operation] = OPERATIONS,
    spend: int = 0,
    days: float = 7.0,
) -> Invited:
    """Make a token that lets one other bank in, once, until it expires."""
    must_be_a_person(context)
    identity, now = identity_of(context), context.now()
    if name is not None and context.read().peers.named(name) is not None:
        raise InvalidInput("name", f"another bank is called {name!r} here already")
    expires = now + round(days * DAY)
    token = capability.grant(
        identity, channels=channels, operations=operations, spend=spend, expires=now + LASTS
    )
    id = capability.revocation_ids(token)[-1]
    invitation = Invitation(id=id, name=name, created_at=now, expires_at=expires)

    def work(txn: Writing) -> None:
        txn.peers.put_invitation(invitation)
        context.note(txn, EventType.INVITED, id[:ID])

    context.write(work)
    pasted = Pasted(address, identity.key, token, sorted(channels))
    return Invited(
        invitation=written(pasted), id=id, channels=tuple(sorted(channels)), address=address,
        expires_at=expires,
    )  # fmt: skip


def written(pasted: Pasted) -> str:
    return PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(pasted)).decode().rstrip("=")


def read(invitation: str) -> Pasted:
    text = re.sub(r"\s+", "", invitation)
    try:
        data = base64.urlsafe_b64decode(text.removeprefix(PREFIX) + "=" * (-len(text) % 4 + 4))
        pasted = msgspec.msgpack.decode(data, type=Pasted)
        if not text.startswith(PREFIX) or len(pasted.key) != 32:
            raise ValueError
    except (ValueError, msgspec.DecodeError):
        raise InvalidInput(
            "invitation", f"is not whole; paste all of what `peer invite` printed, from {PREFIX} on"
        ) from None
    return pasted


def admit(context: Context, key: bytes, name: str, token: bytes) -> Peer:
    """Whoever calls, proven to have this key: known, or with an invitation that nobody has used."""
    now = context.now()
    identity = identity_of(context)

    def work(txn: Writing) -> Peer:
        known = txn.peers.peer(key.hex())
        cut_off = known.revoked_at if known is not None else None
        if known is not None and cut_off is None and known.granted is not None:
            may(context, txn, known)
            seen = replace(known, seen_at=now)
            txn.peers.put(seen)
            return seen
        if cut_off is not None and not token:
            raise NotInvited(CUT_OFF)
        if not token:
            raise NotInvited("this bank is not known here; ask for an invitation, and join with it")
        capability.read(token, identity.key, now)
        invitation = _invitation(txn, capability.revocation_ids(token), key.hex(), now)
        if cut_off is not None and not _invites_again(txn, invitation, cut_off):
            raise NotInvited(CUT_OFF)
        called = known.name if known else free_name(txn, invitation.name or name or key.hex()[:8])
        peer = replace(known or Peer(key=key.hex(), name=called, added_at=now),
                       granted=token, seen_at=now, revoked_at=None)  # fmt: skip
        txn.peers.put(peer)
        txn.peers.put_invitation(replace(invitation, taken_by=key.hex()))
        context.note(txn, EventType.MET, peer.key[:ID])
        return peer

    return context.write(work)


def _invites_again(txn: Writing, invitation: Invitation, cut_off: int) -> bool:
    """Whoever was cut off comes back by what a person here made since then, not by what another
    bank handed on."""
    known = txn.peers.invitation(invitation.id)
    return known is not None and known.taken_by is None and known.created_at >= cut_off


def _invitation(txn: Writing, ids: tuple[str, ...], key: str, now: int) -> Invitation:
    """The invitation that a token is, or was made from by narrowing it."""
    found = [txn.peers.invitation(id) for id in ids]
    first, last = found[0], found[-1]
    if first is None or any(each is not None and each.revoked_at is not None for each in found):
        raise NotInvited("that invitation was taken back")
    if last is None:
        # Handed on by whoever took the first one, narrowed: as good for one bank as that was.
        if first.taken_by is None and first.expires_at < now:
            raise NotInvited("that invitation has expired; ask for another")
        return Invitation(id=ids[-1], created_at=now, expires_at=first.expires_at)
    if last.taken_by not in (None, key):
        raise NotInvited("that invitation was used by another bank; ask for one of your own")
    if last.taken_by is None and last.expires_at < now:
        raise NotInvited("that invitation has expired; ask for another")
    return last


def may(context: Context, txn: Writing | None, peer: Peer) -> Capability:
    """What a peer may do here, now."""
    reading = context.read() if txn is None else txn
    if peer.revoked_at is not None or peer.granted is None:
        raise NotInvited(f"{peer.name} may do nothing here")
    found = capability.read(peer.granted, identity_of(context).key, context.now())
    for id in found.revocation_ids:
        invitation = reading.peers.invitation(id)
        if invitation is not None and invitation.revoked_at is not None:
            raise NotInvited(f"what {peer.name} was let in by was taken back")
    return found


def joined(context: Context, pasted: Pasted, name: str) -> Peer:
    """The other side has let this bank in: it may do here what this bank may do there."""
    now = context.now()

    def work(txn: Writing) -> Peer:
        known = txn.peers.peer(pasted.key.hex())
        called = known.name if known else free_name(txn, name or pasted.key.hex()[:8])
        granted = capability.grant(
            identity_of(context), channels=pasted.channels, operations=OPERATIONS, spend=0,
            expires=now + LASTS,
        )  # fmt: skip
        peer = replace(
            known or Peer(key=pasted.key.hex(), name=called, added_at=now),
            address=pasted.address, token=pasted.token, granted=granted, seen_at=now,
            revoked_at=None,
        )  # fmt: skip
        txn.peers.put(peer)
        context.note(txn, EventType.MET, peer.key[:ID])
        return peer

    return context.write(work)


def free_name(txn: Writing, wanted: str) -> str:
    wanted = " ".join(wanted.split())[:60] or "peer"
    number = 1
    name = wanted
    while txn.peers.named(name) is not None:
        number += 1
        name = f"{wanted} {number}"
    return name


def find(context: Context, name: str) -> Peer:
    """By its name, or by the first digits of its key."""
    peers = context.read().peers
    if (peer := peers.named(name)) is not None:
        return peer
    alike = [each for each in peers.all() if len(name) >= 4 and each.key.startswith(name)]
    if len(alike) == 1:
        return alike[0]
    raise NotFound(f"no bank called {name!r} is known here; `reasonbank peer list` shows them")


def revoke(
    context: Context, name: str, *, revert: bool, dry_run: bool = False
) -> tuple[Peer, Reverted | None]:
    """Cut a bank off; ``revert``: and take back all that it brought, its own and others'."""
    must_be_a_person(context)
    peer = find(context, name)
    now = context.now()
    if dry_run:
        return peer, _take_back(context, peer, dry_run=True) if revert else None

    def work(txn: Writing) -> Peer:
        gone = replace(peer, revoked_at=peer.revoked_at or now, trusted=False)
        txn.peers.put(gone)
        for invitation in txn.peers.invitations():
            if invitation.taken_by == peer.key and invitation.revoked_at is None:
                txn.peers.put_invitation(replace(invitation, revoked_at=now))
        context.note(txn, EventType.CUT_OFF, peer.key[:ID])
        return gone

    gone = context.write(work)
    return gone, _take_back(context, peer, dry_run=False) if revert else None


def _take_back(context: Context, peer: Peer, *, dry_run: bool) -> Reverted:
    brought = {log.key for log in context.read().peers.logs() if log.via == peer.key}
    others = {each.key for each in context.read().peers.all()} - {peer.key}
    origins = tuple(sorted({peer.key, *(brought - others)}))
    whole = replace(context, whole=True)
    return take_back(whole, Written(workspace=None, origins=origins), dry_run=dry_run)


def trust(context: Context, name: str, *, trusted: bool) -> tuple[Peer, int]:
    """From now on, what it says counts as if it had been said here; and what it said so far is
    accepted. Returns how many of its memories that were."""
    must_be_a_person(context)
    peer = replace(find(context, name), trusted=trusted)
    if trusted and peer.revoked_at is not None:
        raise InvalidInput(
            "name", f"{peer.name} was cut off; join it first, with an invitation that it makes"
        )

    def work(txn: Writing) -> None:
        txn.peers.put(peer)
        context.note(txn, EventType.TRUSTED if trusted else EventType.DOUBTED, peer.key[:ID])

    context.write(work)
    if not trusted:
        return peer, 0
    LedgerLogs(context, identity_of(context)).adopt_all([peer.key])
    return peer, context.write(lambda txn: _accept_all(context, txn, peer.key))


def _accept_all(context: Context, txn: Writing, key: str) -> int:
    found = txn.peers.on_probation(hand_of(key))
    for id in found:
        context.append(txn, EventType.ACCEPTED, id, {})
    return len(found)


def hand_of(key: str) -> str:
    """Whose its words are, where they stand in this bank's memories."""
    return hand(Principal.PEER, told_by(key))


def share_project(context: Context, name: str) -> str:
    """This workspace is what others call by this name; returns the channel."""
    must_be_a_person(context)
    context.write(lambda txn: txn.peers.share_project(name, context.view.workspace))
    return PROJECT + name


def must_be_a_person(context: Context) -> None:
    if context.principal is not Principal.PERSON:
        raise Forbidden(
            "only a person says which banks belong together; run `reasonbank peer` in a terminal "
            "of your own, or open the page"
        )
