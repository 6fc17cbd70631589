"""The task lane: a task is offered to peers, one takes it, and what became of it comes back.

Each offer is granted once, to one bank, and only as far as that bank may spend; both ends keep
what they have agreed in their ledger, so that a crash neither grants nor does anything twice. What
a crash cut off is told as failed when the two meet again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum

from reasonbank.errors import InvalidInput, ReasonBankError
from reasonbank.ledger.port import Peer, TaskOffer, Writing
from reasonbank.model import JSON, Outcome, Principal, Trace, new_id
from reasonbank.peers import membership, wire
from reasonbank.peers.wire import Frame, Gone, Grant, Offer, Result, Take
from reasonbank.store import traces
from reasonbank.store.context import Context

MOST_AT_A_TIME = 8
"""Tasks of others that are not done yet; with so many, none is taken."""
LONGEST_RESULT = wire.LONGEST_FRAME // 2 - 1_000
LONGEST_TASK = 60_000
"""Letters. What a peer is told must fit into what it reads."""
Solver = Callable[[TaskOffer], Awaitable[tuple[JSON, int]]]
"""Does a task for as much as it may cost: what became of it as a trace, and what it did cost in
millionths of a dollar. Where it raises a ``ReasonBankError``, nothing came of it."""


class State(StrEnum):
    OPEN = "open"
    WANTED = "wanted"
    GRANTED = "granted"
    DONE = "done"


def offer(context: Context, task: str, *, most: int, seconds: float = 3600.0) -> TaskOffer:
    """Have a task done by whichever peer takes it first; `most` is what may be spent on it."""
    if not task.strip() or len(task) > LONGEST_TASK or "\0" in task or not _is_text(task):
        raise InvalidInput("task", f"is a text of 1 to {LONGEST_TASK:,} letters")
    if most < 0:
        raise InvalidInput("most", "cannot be less than nothing")
    made = TaskOffer(
        id=new_id(), ours=True, state=State.OPEN, task=context.without_secrets(task), most=most,
        expires_at=context.now() + round(seconds * 1e6), workspace=context.view.workspace,
    )  # fmt: skip
    context.write(lambda txn: txn.peers.put_offer(made))
    return made


def _is_text(task: str) -> bool:
    try:
        task.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_vain(task: str, why: str) -> JSON:
    """The trace of a task that nothing came of."""
    step = {"iteration": 0, "action": "given up", "content": why}
    return {"task": task, "trajectory": [step], "outcome": str(Outcome.FAILURE)}


def _told(trace: JSON) -> str:
    """As it travels: what is too long for a frame is cut, step by step."""
    most = LONGEST_RESULT
    while len(told := json.dumps(trace)) > LONGEST_RESULT and most > 1:
        most //= 2
        steps = [
            {
                name: value[:most] if isinstance(value, str) else value
                for name, value in step.items()
            }
            for step in trace["trajectory"]
        ]
        trace = trace | {"task": trace["task"][:most], "trajectory": steps}
    return told


class Tasks:
    """One bank's side of the lane; ``takes``: whether it does tasks of others."""

    def __init__(self, context: Context, *, takes: bool) -> None:
        self.context = context
        self.takes = takes
        self.told: set[tuple[str, str]] = set()
        self.to_do: list[TaskOffer] = []
        self._doing: set[str] = set()

    def met(self, peer: Peer) -> list[Frame]:
        """A connection is new: what it was told before may not have arrived."""
        self.told = {(key, id) for key, id in self.told if key != peer.key}
        theirs = [
            each
            for each in self.context.read().peers.offers()
            if not each.ours and each.peer == peer.key
        ]
        # So few may not have arrived: no more is granted until it is connected again.
        last = sorted((each for each in theirs if each.state == State.DONE), key=lambda o: o.id)
        done = [
            Result(each.id, (each.trace or "{}").encode(), each.spent)
            for each in last[-2 * MOST_AT_A_TIME :]
        ]
        for each in theirs:
            if each.state == State.GRANTED and each.id not in self._doing:
                why = "The bank that had this task was stopped before it was done."
                done += self.finished(each, in_vain(each.task, why), 0)
        return [*done, *self.due(peer)]

    def due(self, peer: Peer) -> list[Frame]:
        """What this peer has not been offered yet and may take."""
        open_now = [
            each
            for each in self.context.read().peers.offers()
            if each.ours and each.state == State.OPEN and each.expires_at > self.context.now()
            and (peer.key, each.id) not in self.told
        ]  # fmt: skip
        if not open_now or (left := self._left(None, peer)) is None:
            return []
        open_now = [each for each in open_now if each.most <= left]
        self.told |= {(peer.key, each.id) for each in open_now}
        return [Offer(each.id, each.task, each.most, each.expires_at) for each in open_now]

    def heard(self, peer: Peer, frame: Frame) -> list[Frame]:
        match frame:
            case Offer():
                return self._offered(peer, frame)
            case Take():
                return [self.context.store.write(lambda txn: self._taken(txn, peer, frame.offer))]
            case Grant():
                self._granted(peer, frame.offer)
            case Result():
                self._came_back(peer, frame)
            case Gone():
                pass
        return []

    def finished(self, offer: TaskOffer, trace: JSON, spent: int) -> list[Result]:
        """What was to be done is done, or was given up."""
        self._doing.discard(offer.id)
        done = replace(offer, state=State.DONE, spent=spent, trace=_told(trace))
        self.context.store.write(lambda txn: txn.peers.put_offer(done))
        return [Result(offer.id, (done.trace or "").encode(), spent)]

    # Of another bank

    def _offered(self, peer: Peer, offer: Offer) -> list[Frame]:
        late = offer.expires <= self.context.now()
        if not self.takes or late or self._left(None, peer) is None:
            return []
        theirs = [each for each in self.context.read().peers.offers() if not each.ours]
        under_way = sum(
            1 for each in theirs if self._is_under_way(each, peer) and each.id != offer.id
        )
        known = self.context.read().peers.offer(offer.id)
        if under_way >= MOST_AT_A_TIME or (
            known is not None and (known.peer, known.state) != (peer.key, State.WANTED)
        ):
            return []
        wanted = TaskOffer(
            id=offer.id, ours=False, peer=peer.key, state=State.WANTED, task=offer.task,
            most=offer.most, workspace=self.context.view.workspace,
            # Whoever says for how long may say a million years, which no calendar shows.
            expires_at=min(offer.expires, self.context.now() + membership.LASTS),
        )  # fmt: skip

        def work(txn: Writing) -> None:
            txn.peers.drop_offers(State.WANTED, self.context.now())
            txn.peers.put_offer(wanted)

        self.context.store.write(work)
        return [Take(offer.id)]

    def _is_under_way(self, offer: TaskOffer, peer: Peer) -> bool:
        """What was wanted and never granted is over when the offer is, and until then in the way
        of nobody but its own bank."""
        return offer.id in self._doing or (
            offer.state == State.WANTED
            and offer.peer == peer.key
            and offer.expires_at > self.context.now()
        )

    def _granted(self, peer: Peer, id: str) -> None:
        def work(txn: Writing) -> TaskOffer | None:
            known = txn.peers.offer(id)
            if known is None or known.ours or (known.peer, known.state) != (peer.key, State.WANTED):
                return None
            granted = replace(known, state=State.GRANTED)
            txn.peers.put_offer(granted)
            return granted

        if (granted := self.context.store.write(work)) is not None:
            self._doing.add(granted.id)
            self.to_do.append(granted)

    # Of this bank

    def _taken(self, txn: Writing, peer: Peer, id: str) -> Frame:
        known, left = txn.peers.offer(id), self._left(txn, peer)
        if (
            known is None
            or not known.ours
            or left is None
            or known.expires_at <= self.context.now()
            or (known.state, known.peer) not in ((State.OPEN, None), (State.GRANTED, peer.key))
        ):
            return Gone(id)
        if known.state == State.OPEN and known.most > left:
            # What others cost less than was thought is there for it again.
            self.told.discard((peer.key, id))
            return Gone(id)
        txn.peers.put_offer(replace(known, state=State.GRANTED, peer=peer.key))
        return Grant(id)

    def _left(self, txn: Writing | None, peer: Peer) -> int | None:
        """What this peer may still spend of what it was granted; None: it may do no tasks."""
        try:
            return membership.left_to_spend(self.context, txn, peer)
        except ReasonBankError:
            return None

    def _came_back(self, peer: Peer, result: Result) -> None:
        def work(txn: Writing) -> None:
            known = txn.peers.offer(result.offer)
            if known is None or not known.ours:
                return
            if (known.peer, known.state) != (peer.key, State.GRANTED):
                return
            told = wire.said(result.trace)
            allowed: JSON = {name: told[name] for name in ("task", "trajectory", "outcome")
                       if name in told}  # fmt: skip
            trace = Trace.from_json(allowed | {"task": known.task})
            context = replace(
                self.context.seen_by(workspace=known.workspace), acts_as=Principal.PEER,
                author=f"{peer.name[:60]}@{peer.key[:16]}", identity=None, surface="bus",
            )  # fmt: skip
            stored = traces.store_in(context, txn, traces.fit(context, trace))
            txn.peers.put_offer(replace(
                known, state=State.DONE, spent=min(result.spent, known.most), trace=stored.id
            ))  # fmt: skip

        try:
            self.context.store.write(work)
        except (ValueError, TypeError, KeyError, InvalidInput) as error:
            raise wire.BadFrame(f"a result that is no trace: {error}") from None
