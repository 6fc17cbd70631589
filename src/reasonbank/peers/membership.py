"""Who belongs together: invitations, what each may do, and how somebody is cut off again."""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from reasonbank.errors import Forbidden, InvalidInput, NotFound, ReasonBankError
from reasonbank.ledger.events import EventType, hand, lesson, text_digest
from reasonbank.ledger.port import Invitation, Peer, Writing, Written
from reasonbank.model import JSON, Principal, from_micros
from reasonbank.peers import capability
from reasonbank.peers.adopt import told_by
from reasonbank.peers.capability import Capability, Operation, Rights
from reasonbank.peers.identity import Identity
from reasonbank.peers.logs import LedgerLogs
from reasonbank.peers.publish import PROJECT
from reasonbank.peers.transport import host_and_port
from reasonbank.store.context import Context
from reasonbank.store.revert import Reverted, take_back

PREFIX = "rbp_"
EVERYWHERE = ("0.0.0.0", "[::]")  # nosec B104  # what is listened at, not what is called
LISTEN = "0.0.0.0:7433"
"""Where a bank waits for others, over UDP, unless `peer init` says otherwise."""
DAY = 86_400_000_000
OPERATIONS = frozenset(Operation)
LISTENING = OPERATIONS - {Operation.WRITE, Operation.TASK}
"""Of who may hear what is said, and say nothing."""
ID = 16
"""Digits of a key, or of an invitation, that the audit names it by."""
LASTS = 3650 * DAY
"""What is granted where nobody says how long; `peer revoke` ends it."""
FEWEST = 4
"""Digits that something is known by."""
LONGEST_NAME = 60
MOST_GRANTS = 16
"""That one bank holds here at a time."""
MOST_BY_ONE = 32
"""Banks that come in by one invitation and what was made from it by handing it on."""

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
    """As it was told; else two machines of one person are told apart by theirs."""
    machine = socket.gethostname().partition(".")[0]
    own = f"{context.author}@{machine}" if machine else context.author
    return context.read().peers.state("name") or own[:LONGEST_NAME]


def listens_at(context: Context) -> str:
    return context.read().peers.state("listen") or LISTEN


def introduce(
    context: Context, *, name: str | None, listen: str | None, address: str | None
) -> None:
    """What this bank is called by others, where it waits for them, and where they reach it."""
    must_be_a_person(context)
    if name is not None:
        name = " ".join(name.split())
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise InvalidInput("name", f"is 1 to {LONGEST_NAME} letters that can be shown")
    for said, place in (("listen", listen), ("address", address)):
        if place is not None and host_and_port(place)[1] == 0:
            raise InvalidInput(said, f"{place!r} is no place that others could call; name a port")
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
            "added_at": from_micros(peer.added_at),
            "seen_at": None if peer.seen_at is None else from_micros(peer.seen_at),
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
    """Those that this bank can call, of these or of all."""
    for peer in (named := [find(context, name) for name in names]):
        if peer.revoked_at is not None:
            raise InvalidInput("name", f"{peer.name} was cut off here; it can be invited anew")
        if not peer.address:
            raise InvalidInput(
                "name", f"{peer.name} calls this bank; where it could be called is not known here"
            )
    chosen = named or context.read().peers.all()
    return [peer for peer in chosen if peer.address and peer.revoked_at is None]


def must_be_another(context: Context, key: bytes) -> None:
    if key == identity_of(context).key:
        raise InvalidInput(
            "invitation", "is this bank's own, or that of a copy of it; paste it at another bank"
        )


def must_know_projects(context: Context, pasted: Pasted, project: str | None) -> None:
    """What is shared as a project must be one here, and named by who joins: somebody else's may
    well be called the same."""
    known = context.read().peers.peer(pasted.key.hex())
    shared = set(_channels(context, known)) if known is not None else set()
    for channel in pasted.channels:
        name = channel.removeprefix(PROJECT)
        if channel.startswith(PROJECT) and name != project and channel not in shared:
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
    stays: float | None = None,
) -> Invited:
    """Make a token that lets one other bank in, once, until it expires; ``stays``: for how many
    days it lets it do anything, from now on."""
    must_be_a_person(context)
    identity, now = identity_of(context), context.now()
    if name is not None and context.read().peers.named(name) is not None:
        raise InvalidInput("name", f"another bank is called {name!r} here already")
    expires = now + round(days * DAY)
    token = capability.grant(
        identity, channels=channels, operations=operations, spend=spend,
        expires=now + (LASTS if stays is None else round(stays * DAY)),
    )  # fmt: skip
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


def narrowed(
    pasted: Pasted,
    *,
    channels: Collection[str] | None = None,
    operations: Collection[Operation] | None = None,
    spend: int | None = None,
    expires: int | None = None,
) -> Pasted:
    """An invitation to hand on, that lets do at most this of what it was made from. Nobody is
    asked for it."""
    strange = sorted({*(channels or ())} - {*pasted.channels})
    if strange:
        raise InvalidInput(
            "share", f"{', '.join(strange)} is not in it; it shares {', '.join(pasted.channels)}"
        )
    token = capability.narrowed(
        pasted.token, channels=channels, operations=operations, spend=spend, expires=expires
    )
    left = capability.at_any_time(token, pasted.key)
    return msgspec.structs.replace(pasted, token=token, channels=sorted(left.channels))


def handed_on(
    pasted: Pasted,
    *,
    channels: Collection[str] | None,
    operations: Collection[Operation] | None,
    spend: int | None,
    days: float | None,
) -> Invited:
    """``narrowed``, as it is shown to who hands it on."""
    now = time.time_ns() // 1000
    expires = None if days is None else now + round(days * DAY)
    less = narrowed(pasted, channels=channels, operations=operations, spend=spend, expires=expires)
    left = capability.read(less.token, less.key, now)
    return Invited(
        invitation=written(less), id=left.revocation_ids[-1], channels=tuple(less.channels),
        address=less.address, expires_at=left.expires,
    )  # fmt: skip


def invitation_of(context: Context, name: str) -> Pasted:
    """What this bank has joined a peer by, to be handed on."""
    must_be_a_person(context)
    peer = find(context, name)
    if peer.token is None or peer.address is None or peer.revoked_at is not None:
        raise InvalidInput(
            "invitation", f"{peer.name} has not invited this bank: there is nothing to hand on"
        )
    key = bytes.fromhex(peer.key)
    channels = capability.at_any_time(peer.token, key).channels
    return Pasted(peer.address, key, peer.token, sorted(channels))


def admit(context: Context, key: bytes, name: str, token: bytes) -> Peer:
    """Whoever calls, proven to have this key: known, or with an invitation that is theirs or
    nobody's yet."""
    now = context.now()
    must_be_another(context, key)

    def work(txn: Writing) -> Peer:
        known = txn.peers.peer(key.hex())
        cut_off = known.revoked_at if known is not None else None
        if cut_off is not None and not token:
            raise NotInvited(CUT_OFF)
        if token:
            peer = _let_in(context, txn, known, key, name, token)
        elif known is None or known.granted is None:
            raise NotInvited("this bank is not known here; ask for an invitation, and join with it")
        else:
            peer = known
        may(context, txn, peer)
        peer = replace(peer, seen_at=now)
        txn.peers.put(peer)
        return peer

    return context.write(work)


def _let_in(
    context: Context, txn: Writing, known: Peer | None, key: bytes, name: str, token: bytes
) -> Peer:
    """What this invitation allows comes to what another one may have allowed before."""
    now, home = context.now(), identity_of(context).key
    new = capability.read(token, home, now)
    invitation = _invitation(txn, new.revocation_ids, key.hex(), now)
    held: list[bytes] = []
    if known is not None and known.revoked_at is not None:
        if not _invites_again(txn, invitation, known.revoked_at):
            raise NotInvited(CUT_OFF)
    elif known is not None:
        held = [each for each in _tokens(known) if _is_good(context, txn, each)]
    ids = {capability.at_any_time(each, home).revocation_ids for each in held}
    if known is not None and new.revocation_ids in ids:
        return known
    if len(held) >= MOST_GRANTS:
        raise NotInvited(f"this bank holds {len(held)} invitations here already")
    first = new.revocation_ids[0]
    others = {peer.key for peer in _who_share(context, txn, first)} - {key.hex()}
    if len(others) >= MOST_BY_ONE:
        raise NotInvited(f"that invitation has let in {len(others)} banks, as many as one may")
    called = known.name if known else free_name(txn, invitation.name or name or key.hex()[:8])
    txn.peers.put_invitation(replace(invitation, taken_by=key.hex()))
    context.note(txn, EventType.MET, key.hex()[:ID])
    return replace(known or Peer(key=key.hex(), name=called, added_at=now),
                   granted=_packed([*held, token]), revoked_at=None)  # fmt: skip


def _packed(tokens: list[bytes]) -> bytes:
    return tokens[0] if len(tokens) == 1 else msgspec.msgpack.encode(tokens)


def _tokens(peer: Peer) -> list[bytes]:
    """What a peer was granted here: a token, or a list of them."""
    if peer.granted is None:
        return []
    try:
        return msgspec.msgpack.decode(peer.granted, type=list[bytes])
    except msgspec.DecodeError:
        return [peer.granted]


def _is_good(context: Context, txn: Writing | None, token: bytes) -> bool:
    try:
        _good(context, txn, token)
    except ReasonBankError:
        return False
    return True


def _good(context: Context, txn: Writing | None, token: bytes) -> Capability:
    """What a token allows, now. Raises ``Denied`` or ``NotInvited``."""
    reading = context.read() if txn is None else txn
    found = capability.read(token, identity_of(context).key, context.now())
    for id in found.revocation_ids:
        invitation = reading.peers.invitation(id)
        if invitation is not None and invitation.revoked_at is not None:
            raise NotInvited("the invitation that this bank was let in by was taken back")
    return found


def _who_share(context: Context, txn: Writing | None, id: str) -> list[Peer]:
    """Whoever was granted what was made from this block."""
    reading, home = context.read() if txn is None else txn, identity_of(context).key

    def came_by_it(token: bytes) -> bool:
        with suppress(ReasonBankError):
            return id in capability.at_any_time(token, home).revocation_ids
        return False

    return [peer for peer in reading.peers.all() if any(map(came_by_it, _tokens(peer)))]


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


def may(context: Context, txn: Writing | None, peer: Peer) -> Rights:
    """What a peer may do here, now."""
    if peer.revoked_at is not None:
        raise NotInvited(f"{peer.name} may do nothing here")
    held, problem = [], None
    for token in _tokens(peer):
        try:
            held.append(_good(context, txn, token))
        except ReasonBankError as why:
            problem = why
    if not held:
        raise problem or NotInvited(f"{peer.name} may do nothing here")
    return Rights(tuple(held))


def left_to_spend(context: Context, txn: Writing | None, peer: Peer) -> int | None:
    """Of what this peer was granted; None: it may do no tasks. What was handed on is a part of it,
    and not more of the same."""
    able = [each for each in may(context, txn, peer).held if Operation.TASK in each.operations]
    reading = context.read() if txn is None else txn
    left = [
        min(cap - sum(reading.peers.spent_by(each.key) for each in _who_share(context, txn, id))
            for id, cap in zip(each.revocation_ids, each.caps, strict=True))
        for each in able
    ]  # fmt: skip
    return max(0, *left) if left else None


def joined(context: Context, pasted: Pasted, name: str) -> Peer:
    """The other side has let this bank in: it may do here what this bank may do there."""
    now = context.now()

    def work(txn: Writing) -> Peer:
        known = txn.peers.peer(pasted.key.hex())
        called = known.name if known else free_name(txn, name or pasted.key.hex()[:8])
        peer = replace(
            known or Peer(key=pasted.key.hex(), name=called, added_at=now),
            address=pasted.address, token=pasted.token, seen_at=now, revoked_at=None,
            granted=_granted_by_joining(context, txn, known, pasted.channels),
        )  # fmt: skip
        txn.peers.put(peer)
        context.note(txn, EventType.MET, peer.key[:ID])
        return peer

    return context.write(work)


def _granted_by_joining(
    context: Context, txn: Writing, known: Peer | None, channels: Collection[str]
) -> bytes:
    """Another invitation takes nothing away of what was agreed before."""
    agreed, others = {*channels}, []
    for token in _tokens(known) if known is not None and known.revoked_at is None else ():
        if _is_good(context, txn, token):
            found = _good(context, txn, token)
            if txn.peers.invitation(found.revocation_ids[0]) is None:
                agreed |= found.channels  # By joining, too.
            else:
                others.append(token)
    token = capability.grant(
        identity_of(context), channels=agreed, operations=OPERATIONS, spend=0,
        expires=context.now() + LASTS,
    )  # fmt: skip
    return _packed([*others, token])


def free_name(txn: Writing, wanted: str) -> str:
    shown = "".join(letter for letter in " ".join(wanted.split()) if letter.isprintable())
    wanted = shown[:LONGEST_NAME].strip() or "peer"
    number = 1
    name = wanted
    while txn.peers.named(name) is not None:
        number += 1
        name = f"{wanted} {number}"
    return name


def find(context: Context, name: str) -> Peer:
    """By its key, or the first digits of it, or its name. A name that another bank has chosen so
    that it reads as somebody's key means neither."""
    peers = context.read().peers
    if (peer := peers.peer(name)) is not None:
        return peer
    alike = [
        each
        for each in peers.all()
        if each.name == name or (len(name) >= FEWEST and each.key.startswith(name))
    ]
    if len(alike) > 1:
        raise InvalidInput("name", f"{name!r} means several banks; give more of its key")
    if alike:
        return alike[0]
    raise NotFound(f"no bank called {name!r} is known here; `reasonbank peer list` shows them")


def invitation_called(context: Context, name: str) -> Invitation | None:
    """By the first digits of its id; None where no invitation, or a bank, is called so."""
    reading = context.read().peers
    if len(name) < FEWEST or reading.named(name) is not None:
        return None
    alike = [each for each in reading.invitations() if each.id.startswith(name)]
    banks = [each for each in reading.all() if each.key.startswith(name)]
    if len(alike) + len(banks) > 1:
        raise InvalidInput("name", f"{name!r} begins several; give more of it")
    return alike[0] if alike else None


def take_back_invitation(context: Context, name: str) -> Invitation:
    """Nobody comes by it any more; and whoever came by it, or by what was made from it, may no
    longer do what it allowed."""
    must_be_a_person(context)
    found = invitation_called(context, name)
    if found is None:
        raise NotFound(
            f"no invitation begins with {name!r}; `reasonbank peer status` shows the open ones"
        )
    gone = replace(found, revoked_at=found.revoked_at or context.now())

    def work(txn: Writing) -> None:
        txn.peers.put_invitation(gone)
        context.note(txn, EventType.UNINVITED, gone.id[:ID])

    context.write(work)
    return gone


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
    wanted = Written(workspace=None, origins=origins, through=peer.key)
    return take_back(whole, wanted, dry_run=dry_run)


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
    LedgerLogs(context, identity_of(context)).adopt_all(peer.key)
    return peer, context.write(lambda txn: _accept_all(context, txn, peer.key))


def _accept_all(context: Context, txn: Writing, key: str) -> int:
    found = txn.peers.on_probation(hand_of(key))
    whole = replace(context, whole=True)
    for id in found:
        of = text_digest(lesson(whole.row(txn, id).memory()))
        context.append(txn, EventType.ACCEPTED, id, {"of": of})
    return len(found)


def hand_of(key: str) -> str:
    """Whose its words are, where they stand in this bank's memories."""
    return hand(Principal.PEER, told_by(key))


def share_project(context: Context, name: str, *, joins: bytes | None = None) -> str:
    """This workspace is what others call by this name; returns the channel. ``joins``: the one who
    invited; those who hear of another workspace by this name must not hear of this one."""
    must_be_a_person(context)
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput("project", f"is 1 to {LONGEST_NAME} letters that can be shown")
    reading, here = context.read(), context.view.workspace
    before = reading.peers.projects().get(name, here)
    places = {place.id: place.path for place in reading.workspaces()}
    if before != here and before in places:
        others = [peer for peer in reading.peers.all() if peer.key != (joins or b"").hex()]
        hear = [peer for peer in others if PROJECT + name in _channels(context, peer)]
        if hear or (joins is None and open_invitations(context)):
            raise InvalidInput(
                "project", f"{name!r} is shared already, and is {places[before] or before} here; "
                "share this one by another name"
            )  # fmt: skip
    context.write(lambda txn: txn.peers.share_project(name, here))
    return PROJECT + name


def must_be_a_person(context: Context) -> None:
    if context.principal is not Principal.PERSON:
        raise Forbidden(
            "only a person says which banks belong together; run `reasonbank peer` in a terminal "
            "of your own, or open the page"
        )
