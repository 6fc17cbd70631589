"""Other banks, as a person sees and judges them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from reasonbank.errors import Refused
from reasonbank.fields import Text
from reasonbank.ledger.port import Invitation, TaskOffer
from reasonbank.model import JSON, from_micros
from reasonbank.peers import must_be_installed
from reasonbank.store.context import Context
from reasonbank.store.revert import Reverted
from reasonbank.surfaces.call import Call

Which = Annotated[str, Text(64), "Its name here, or its key."]
Cut = Annotated[str, Text(200), "Its name here, or its key; or the id of an invitation."]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerShown:
    """``entries`` is how much is known of what it said itself, ``brought`` of what came through
    it, others' words too; ``waiting`` counts its memories that nothing has confirmed, and ``hand``
    is how the review names it. ``memories``, ``version`` and ``load`` are as it said itself."""

    name: str
    key: str
    hand: str
    address: str | None
    state: Literal["on probation", "trusted", "cut off", "two stories"]
    channels: tuple[str, ...]
    entries: int
    brought: int
    waiting: int
    memories: int | None
    version: str | None
    load: float | None
    added_at: datetime
    seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationShown:
    id: str
    name: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferShown:
    """``ours``: a task of this bank for another one to do. ``peer`` is who does it, or whose it
    is; ``most`` and ``spent`` are dollars; ``trace`` is what became of one of ours."""

    id: str
    ours: bool
    peer: str | None
    state: str
    task: str
    most: float
    spent: float
    expires_at: datetime
    trace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnBank:
    """As others know this one."""

    name: str
    key: str
    address: str
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """``missing`` says what is not installed, where the bus is not; nothing else is known then."""

    missing: str | None = None
    own: OwnBank | None = None
    peers: tuple[PeerShown, ...] = ()
    invitations: tuple[InvitationShown, ...] = ()
    offers: tuple[OfferShown, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedPeer:
    """``accepted`` counts the memories of it that are confirmed by that."""

    peer: str
    key: str
    trusted: bool
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedPeer:
    """``reverted`` is what was taken back, if that was wanted; ``invitation`` is the one that was,
    where its id was given."""

    peer: str | None = None
    key: str | None = None
    invitation: str | None = None
    reverted: Reverted | None = None
    dry_run: bool


def peers(call: Call) -> Peers:
    """List the banks that this one learns together with, and say who it is itself.

    They are the whole bank's business: who is bound to workspaces is not told.
    """
    context = call.whole.context
    try:
        must_be_installed()
    except Refused as problem:
        return Peers(missing=str(problem))
    from reasonbank.peers import membership

    own = membership.about(context)
    return Peers(
        own=OwnBank(**own | {"channels": tuple(own["channels"])}),
        peers=tuple(map(_shown, membership.listed(context))),
        invitations=tuple(invitations(context)),
        offers=tuple(offers(context)),
    )


def invitations(context: Context) -> list[InvitationShown]:
    """Those that somebody may still come with."""
    from reasonbank.peers import membership

    return [_invitation(one) for one in membership.open_invitations(context)]


def offers(context: Context) -> list[OfferShown]:
    """Tasks that this bank offered, and those of others that it took."""
    reading = context.read().peers
    names = {peer.key: peer.name for peer in reading.all()}
    return [_offer(each, names, context.now()) for each in reading.offers()]


def _shown(told: JSON) -> PeerShown:
    return PeerShown(**told | {"channels": tuple(told["channels"])})


def _invitation(one: Invitation) -> InvitationShown:
    return InvitationShown(
        id=one.id, name=one.name, created_at=from_micros(one.created_at),
        expires_at=from_micros(one.expires_at),
    )  # fmt: skip


def _offer(one: TaskOffer, names: dict[str, str], now: int) -> OfferShown:
    over = one.state in ("open", "wanted") and one.expires_at <= now
    return OfferShown(
        id=one.id, ours=one.ours, peer=None if one.peer is None else names.get(one.peer, one.peer),
        state="expired" if over else one.state, task=one.task, most=one.most / 1e6,
        spent=one.spent / 1e6, expires_at=from_micros(one.expires_at),
        trace=one.trace if one.ours else None,
    )  # fmt: skip


def trust_peer(call: Call, name: Which, *, trusted: bool) -> TrustedPeer:
    """Let a bank's word count as if it had been said here, or no longer; only a person does so."""
    context = call.whole.context
    must_be_installed()
    from reasonbank.peers import membership

    peer, accepted = membership.trust(context, name, trusted=trusted)
    return TrustedPeer(peer=peer.name, key=peer.key, trusted=peer.trusted, accepted=accepted)


def revoke_peer(
    call: Call,
    name: Cut,
    *,
    revert: Annotated[bool, "Take back all that it brought, as one batch."] = False,
    dry_run: Annotated[bool, "Say what would be taken back, and do nothing."] = False,
) -> RevokedPeer:
    """Cut a bank off: nothing is told to it or heard from it any more; only a person does so.

    Of an invitation: nobody comes by it any more, and who did may no longer do what it allowed.
    """
    context = call.whole.context
    must_be_installed()
    from reasonbank.peers import membership

    if (called := membership.invitation_called(context, name)) is not None:
        membership.must_be_a_person(context)
        if not dry_run:
            membership.take_back_invitation(context, name)
        return RevokedPeer(invitation=called.id, dry_run=dry_run)
    peer, reverted = membership.revoke(context, name, revert=revert, dry_run=dry_run)
    return RevokedPeer(peer=peer.name, key=peer.key, reverted=reverted, dry_run=dry_run)
