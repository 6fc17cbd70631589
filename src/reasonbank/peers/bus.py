"""One bank among others: who calls whom, what is said on which lane, and when.

What waits for a peer is a coroutine. All that touches the bank happens in one thread of its own,
one thing after another, so that nothing that a peer sends makes anybody else wait.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import TypeVar

from reasonbank.errors import ReasonBankError
from reasonbank.ledger.port import Peer, TaskOffer, Writing
from reasonbank.model import new_id
from reasonbank.peers import membership, wire
from reasonbank.peers.capability import Operation, Rights
from reasonbank.peers.gossip import Node
from reasonbank.peers.hello import caller, hello
from reasonbank.peers.logs import LedgerLogs
from reasonbank.peers.membership import NotInvited, Pasted
from reasonbank.peers.publish import epoch_of
from reasonbank.peers.tasks import Solver, Tasks, in_vain
from reasonbank.peers.transport import (
    OTHER_VERSION,
    Connection,
    ConnectionEnded,
    Listener,
    Stream,
    Transport,
)
from reasonbank.peers.wire import (
    Announce,
    BadFrame,
    Fork,
    Frame,
    Gone,
    Grant,
    Have,
    Head,
    Hello,
    Lane,
    Log,
    Offer,
    Refused,
    Result,
    Segment,
    Status,
    Take,
    Want,
    Welcome,
)
from reasonbank.store.context import Context

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds."""

    look: float = 0.25
    """Between two looks at whether the bank has something new to tell."""
    tick: float = 3.0
    """About, between two looks at whether something was missed."""
    tell: float = 20.0
    """Between two words about how this bank is."""
    soonest: float = 1.0
    latest: float = 60.0
    """Until somebody who could not be reached is called again, at first and at last."""
    patience: float = 5.0
    """That a bank waits to hear what it said itself."""


MOST_WAITING = 1_000
"""Frames that wait for one peer; what is dropped is found later by comparing heads."""
MOST_BYTES_WAITING = 20 * 1024 * 1024
"""And as much of what they say: all that a peer may be asked for at a time, and some more."""
MOST_STREAMS = 32
"""That are heard at a time of one peer, which needs one for each lane."""
STATUS = "status "
"""What the notes about how peers are begin with."""
GOODBYE = "this bank says goodbye"
ANEW = "the same bank has called anew"
ALONE = "alone with "
"""What the notes begin with about whom a process of this bank talks to once, and until when:
another one that keeps in touch does not call in between."""
ALONE_SECONDS = 30.0
"""For so long, unless it says so again: it may have been killed."""
MOST_NOTED, NOTED_SECONDS = 10, 60.0
"""Lines of the log about one peer in that time."""
LONGEST_NOTE = 500
HEARD = 5.0
"""Seconds that somebody who is refused has to hear why."""
ECHO = "echo "
"""What the epoch of a log begins with that nobody has."""
STALLED = 60.0
"""Seconds without a word after which somebody who owes an answer is not waited for any more."""
LONGEST = 600.0
"""Seconds that two banks which are to tell each other everything, once, take for it."""

_log = logging.getLogger("reasonbank.bus")


@dataclass(eq=False)
class Talk:
    """A connection with a peer that both sides have agreed to."""

    peer: Peer
    connection: Connection
    called: bool
    """Whether this bank has called."""
    may_read: frozenset[str] = frozenset()
    may_write: frozenset[str] = frozenset()
    lanes: dict[Lane, Stream] = field(default_factory=dict)
    waiting: asyncio.Queue[tuple[Lane, Frame]] = field(
        default_factory=lambda: asyncio.Queue(MOST_WAITING)
    )
    turns: dict[Lane, asyncio.Lock] = field(
        default_factory=lambda: {lane: asyncio.Lock() for lane in Lane}
    )
    """One thing after another on a lane, over however many streams: else who opens many has the
    bank's one thread for itself."""
    listening: int = 0
    """To so many streams."""
    held: int = 0
    """Bytes that wait, about."""
    since: float = 0.0
    has_told: bool = False
    """How far it knows things; this bank's own log is among them."""
    new: int = 0
    progress: Callable[[int, int], None] | None = None
    """Who wants to know how many entries came, of how many that are known to be new."""
    words: int = 0
    """That told, or asked for, something: in either direction."""
    echo: str = ""
    echoed: asyncio.Event = field(default_factory=asyncio.Event)
    unfinished: str | None = None
    """Why not all was told (see ``Bus.until_quiet``)."""

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.peer.key)

    def let(self, rights: Rights) -> frozenset[str]:
        """What both may talk about from now on."""
        self.may_read = rights.where(Operation.READ)
        self.may_write = rights.where(Operation.WRITE)
        return rights.channels


class Bus:
    def __init__(
        self, context: Context, transport: Transport, *, solver: Solver | None = None,
        pace: Pace | None = None,
    ) -> None:  # fmt: skip
        """``solver`` does what others offer; without one this bank takes no tasks."""
        self.context = context
        self.identity = membership.identity_of(context)
        self.logs = LedgerLogs(context, self.identity)
        rng = random.Random()  # nosec B311  # whom to tell first
        self.node = Node(self.logs, self.identity.key, rng)
        self.tasks = Tasks(context, takes=solver is not None)
        self._solver = solver
        self._solving = asyncio.Lock()
        """One task at a time: what others offer must not crowd out what this machine is for."""
        self._pace = pace or Pace()
        self.talks: dict[bytes, Talk] = {}
        self.joined: asyncio.Queue[Peer] = asyncio.Queue(1)
        """Who came with an invitation, until somebody asks; as a rule nobody does."""
        self._transport = transport
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reasonbank-bus")
        self._running: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._seen: object = None
        self._noted: dict[str, tuple[float, int, str]] = {}
        """By key: since when, how many lines of the log are about it, and what the last says."""
        self._lacks: dict[str, float] = {}
        """Channels in which others know more of this bank than it does, and how long to wait."""
        self._waited: dict[tuple[bytes, str], float] = {}
        """For whom, in which channel, and until when. Once: who says so and cannot show it would
        keep this bank silent for ever."""

    async def listen(self, address: str) -> str:
        self._listener = await self._transport.listen(address, self._answer)
        return self._listener.address

    async def run(self) -> None:
        """Keep in touch with everybody until it is cancelled."""
        calling: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._always(self._look, self._pace.look))
            group.create_task(self._always(self._tick, self._pace.tick))

            async def call_whoever_is_known() -> None:
                for peer in await self._do(self._known):
                    if peer.address and (peer.key not in calling or calling[peer.key].done()):
                        calling[peer.key] = group.create_task(self._call_always(peer.key))

            await self._always(call_whoever_is_known, self._pace.tick)

    async def _always(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Again and again; a disk that is full for a while is no reason to stay silent for ever."""
        while True:
            try:
                await work()
            except ReasonBankError as error:
                self._note(logging.WARNING, None, str(error))
            # Not all at the same moment.
            await asyncio.sleep(seconds * random.uniform(0.7, 1.3))  # nosec B311

    async def close(self) -> None:
        # At once: each waits a moment for what was sent to arrive, and some will not hear it.
        await asyncio.gather(*(talk.connection.close(GOODBYE) for talk in self.talks.values()))
        if self._listener is not None:
            await self._listener.close()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._thread.shutdown()

    async def __aenter__(self) -> Bus:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Calling and being called

    async def join(self, pasted: Pasted, *, name: str | None = None) -> Talk:
        """Call the bank that sent the invitation."""
        membership.must_be_a_person(self.context)
        peer = Peer(key=pasted.key.hex(), name=name or "", address=pasted.address, added_at=0)
        return await self._call_once(peer, pasted)

    async def sync(self, peer: Peer, progress: Callable[[int, int], None] | None = None) -> Talk:
        """Call a peer, and listen until both have told each other everything."""
        talk = await self._call_once(peer, None)
        talk.progress = progress
        await self.until_quiet(talk)
        return talk

    async def until_quiet(self, talk: Talk) -> None:
        """Until both have told each other everything; if they have not, ``talk.unfinished`` is why.

        Whoever is asked for a log that nobody has says so once it has heard, and done, all that was
        said to it before. If neither told anything in between, there is nothing left to tell.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST
        while talk.connection.ended is None and loop.time() < end:
            await self.publish()
            words = talk.words
            answered = await self._echoed(talk)
            if talk.words == words and answered:
                return
            if talk.words == words and not talk.turns[Lane.MEMORY].locked():
                break
        if talk.called or talk.connection.ended != GOODBYE:  # Who called knows when all was told.
            talk.unfinished = talk.connection.ended or "it did not come to an end"

    async def _echoed(self, talk: Talk) -> bool:
        talk.echo = ECHO + new_id()
        talk.echoed.clear()
        nobodys = [Log(self.identity.key, talk.echo, channel)
                   for channel in sorted(talk.may_read | talk.may_write)]  # fmt: skip
        self._send_to(talk, Lane.MEMORY, [Want(log, 0) for log in nobodys])
        waiting = [asyncio.ensure_future(talk.echoed.wait()),
                   asyncio.ensure_future(talk.connection.until_ended())]  # fmt: skip
        await asyncio.wait(waiting, timeout=STALLED, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        return talk.echoed.is_set()

    async def _call_always(self, key: str) -> None:
        pause = self._pace.soonest
        while True:
            peer = await self._do(self._peer, key)
            if peer is None or peer.revoked_at is not None or not peer.address:
                return
            if bytes.fromhex(key) in self.talks:
                await self.talks[bytes.fromhex(key)].connection.until_ended()
                continue
            if await self._do(self._talks_elsewhere, key):
                await asyncio.sleep(self._pace.soonest)
                continue
            try:
                talk = await self._call(peer, None)
            except ReasonBankError as error:
                self._note(logging.INFO, peer, str(error))
            except Exception:  # noqa: BLE001
                # A fault of this program: what one peer answers must not end the talk with others.
                self._note(logging.ERROR, peer, "what it answered", exc_info=True)
            else:
                # Two programs with one bank's key would else end each other's calls for ever.
                if await talk.connection.until_ended() != ANEW:
                    pause = self._pace.soonest
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # nosec B311
            pause = min(2 * pause, self._pace.latest)

    async def _call_once(self, peer: Peer, pasted: Pasted | None) -> Talk:
        """The other side talks to one process of a bank at a time."""
        await self._do(self._is_alone_with, peer.key, ALONE_SECONDS)
        try:
            talk = await self._call(peer, pasted)
        except BaseException:
            await self._do(self._is_alone_with, peer.key, 0.0)
            raise
        self._start(self._stay_alone(talk))
        return talk

    async def _stay_alone(self, talk: Talk) -> None:
        ended = asyncio.ensure_future(talk.connection.until_ended())
        try:
            while not (await asyncio.wait([ended], timeout=ALONE_SECONDS / 3))[0]:
                await self._do(self._is_alone_with, talk.peer.key, ALONE_SECONDS)
        finally:
            ended.cancel()
            await self._do(self._is_alone_with, talk.peer.key, 0.0)

    async def _call(self, peer: Peer, pasted: Pasted | None) -> Talk:
        assert peer.address is not None
        try:
            connection = await self._transport.connect(peer.address, bytes.fromhex(peer.key))
        except ConnectionEnded as error:
            raise ConnectionEnded(f"the bank at {peer.address} was not reached: {error}") from None
        try:
            control = await connection.stream(Lane.CONTROL)
            token = pasted.token if pasted else b""
            said = hello(
                self.identity, connection.binding, name=membership.name_of(self.context),
                at=self.context.now(), token=token,
            )  # fmt: skip
            await control.send(wire.encode(said))
            if pasted is None:
                # Known already: what it is told now may arrive with the first packet.
                talk = await self._begin(connection, peer, called=True)
                self._read(talk, control)
                answer = await self._answered(control)
            else:
                answer = await self._answered(control)
                called = peer.name or answer.name
                peer = await self._do(membership.joined, self.context, pasted, called)
                talk = await self._begin(connection, peer, called=True)
                self._read(talk, control)
        except BaseException:
            await connection.close("given up")
            raise
        return talk

    async def _answered(self, control: Stream) -> Welcome:
        try:
            async with asyncio.timeout(STALLED):
                data = await control.receive()
        except TimeoutError:
            raise ConnectionEnded("the other bank is there and does not answer") from None
        match None if data is None else wire.decode(data):
            case Welcome() as welcome:
                return welcome
            case Refused(code=_, reason=reason):
                raise NotInvited(f"the other bank says: {reason}")
        raise ConnectionEnded("the other bank said nothing that makes sense")

    async def _answer(self, connection: Connection) -> None:
        """Somebody calls."""
        control = await connection.accept()
        data = None if control is None else await control.receive()
        if control is None or data is None or control.lane is not Lane.CONTROL:
            return
        try:
            said = wire.decode(data)
            if not isinstance(said, Hello):
                raise BadFrame("a connection begins with a Hello")
            if said.version != wire.VERSION:
                raise BadFrame(OTHER_VERSION)
            key = caller(said, connection.binding)
            peer = await self._do(membership.admit, self.context, key, said.name, said.token)
        except ReasonBankError as error:
            with suppress(ConnectionEnded, TimeoutError):
                await control.send(wire.encode(Refused(type(error).__name__, str(error))))
                await control.close()
                await asyncio.wait_for(connection.until_ended(), HEARD)
            return
        connection.authenticated(key)
        talk = await self._begin(connection, peer, called=False)
        channels = sorted(talk.may_read | talk.may_write)
        name = membership.name_of(self.context)
        await control.send(wire.encode(Welcome(wire.VERSION, self.identity.key, name, channels)))
        if said.token:
            with suppress(asyncio.QueueFull):
                self.joined.put_nowait(peer)
        await self._accept(talk)
        await self._end(talk)

    # One conversation

    async def _begin(self, connection: Connection, peer: Peer, *, called: bool) -> Talk:
        talk = Talk(peer, connection, called)
        try:
            channels = talk.let(await self._do(membership.may, self.context, None, peer))
        except ReasonBankError as problem:
            raise NotInvited(
                f"{peer.name} may do nothing here any more ({problem}); invite it, or join it, anew"
            ) from None
        talk.since = asyncio.get_running_loop().time()
        old = self.talks.get(talk.key)
        self.talks[talk.key] = talk
        if old is not None:
            self._start(old.connection.close(ANEW))
        if called:
            self._start(self._accept(talk))
        saying = [self._start(self._write(talk)), self._start(self._tell_status(talk))]
        self._start(self._until_over(talk, saying))
        frames = await self._do(self.node.connected, talk.key, channels)
        # Also who knows nothing says so.
        self._send(frames or [(talk.key, Have([]))])
        wanted = await self._do(self.logs.met, talk.key, talk.may_write)
        self._send_to(talk, Lane.MEMORY, wanted)
        self._send_to(talk, Lane.TASK, await self._do(self.tasks.met, talk.peer))
        return talk

    async def _accept(self, talk: Talk) -> None:
        """Both sides open streams when they have something to say."""
        while (stream := await talk.connection.accept()) is not None:
            if talk.listening >= MOST_STREAMS:
                await talk.connection.close("more streams than anybody needs")
                return
            self._read(talk, stream)

    async def _until_over(self, talk: Talk, saying: list[asyncio.Task[None]]) -> None:
        reason = await talk.connection.until_ended()
        for each in saying:
            each.cancel()  # Else it would wait for something to say for ever.
        self._note(logging.INFO, talk.peer, reason)
        await self._end(talk)

    async def _end(self, talk: Talk) -> None:
        if self.talks.get(talk.key) is talk:
            del self.talks[talk.key]
            self._send(await self._do(self.node.disconnected, talk.key))

    def _read(self, talk: Talk, stream: Stream) -> None:
        """What is to be said on a lane goes where this side first heard or said something."""
        talk.lanes.setdefault(stream.lane, stream)
        talk.listening += 1
        self._start(self._listen(talk, stream))

    async def _listen(self, talk: Talk, stream: Stream) -> None:
        try:
            await self._hear_all(talk, stream)
        finally:
            talk.listening -= 1

    async def _hear_all(self, talk: Talk, stream: Stream) -> None:
        if stream.lane is Lane.CONTROL:
            return
        try:
            while (data := await stream.receive()) is not None:
                async with talk.turns[stream.lane]:
                    await self._hear(talk, stream.lane, wire.decode(data))
            if talk.lanes.get(stream.lane) is stream:
                del talk.lanes[stream.lane]
            await stream.close()  # Else it would be kept for as long as the connection.
        except ConnectionEnded:
            pass
        except ReasonBankError as error:
            self._note(logging.WARNING, talk.peer, str(error))
            await talk.connection.close(str(error))
        except Exception:  # noqa: BLE001
            # A fault of this program: better to begin anew than to be deaf on one lane.
            self._note(logging.ERROR, talk.peer, f"what it said on {stream.lane}", exc_info=True)
            await talk.connection.close("something went wrong at this end")

    async def _hear(self, talk: Talk, lane: Lane, frame: Frame) -> None:
        match lane, frame:
            case Lane.MEMORY, Have() | Announce() | Want() | Segment() | Fork():
                if isinstance(frame, Segment | Fork) and not _is_in(frame, talk.may_write):
                    return
                if isinstance(frame, Want) and talk.held >= MOST_BYTES_WAITING:
                    return  # Who asks, and does not read, is not looked things up for.
                if isinstance(frame, Announce) and frame.head.log.epoch.startswith(ECHO):
                    if frame.head.log.epoch == talk.echo:
                        talk.echoed.set()
                    return
                talk.words += not isinstance(frame, Want)
                if isinstance(frame, Have):
                    await self._look_for_ourselves(talk, frame)
                before = await self._do(self._length_of, frame)
                self._send(await self._do(self.node.received, talk.key, frame))
                talk.new += max(0, await self._do(self._length_of, frame) - before)
                if talk.progress is not None:
                    talk.progress(talk.new, talk.new + await self._do(self.node.lacks, talk.key))
            case Lane.STATUS, Status():
                await self._do(self._keep_status, talk.peer.key, frame)
            case Lane.TASK, Offer() | Take() | Grant() | Gone() | Result():
                self._send_to(talk, Lane.TASK, await self._do(self.tasks.heard, talk.peer, frame))
                while self.tasks.to_do:
                    self._start(self._solve(self.tasks.to_do.pop()))
            case _:
                raise BadFrame(f"a {type(frame).__name__} has no place on the lane {lane}")

    async def _look_for_ourselves(self, talk: Talk, have: Have) -> None:
        """A bank that was set back hears it here: others know more of what it said than it does.
        Until it has that too, it says nothing new in its old place."""
        own = (head for head in have.heads if head.log.key == self.identity.key)
        told = {(head.log.epoch, head.log.channel): head for head in own}
        behind = await self._do(self._behind, [
            head for (_, channel), head in told.items()
            if channel in talk.may_read | talk.may_write
        ])  # fmt: skip
        until = asyncio.get_running_loop().time() + self._pace.patience
        for channel in behind:
            self._lacks[channel] = max(
                self._waited.setdefault((talk.key, channel), until), self._lacks.get(channel, 0.0)
            )
        talk.has_told = True
        if not behind:
            await self.publish()

    def _behind(self, heads: list[Head]) -> list[str]:
        epoch = epoch_of(self.context.store)
        return [
            head.log.channel
            for head in heads
            if (head.log.key, head.log.epoch) == (self.identity.key, epoch)
            and ((own := self.logs.head(head.log)) is None or own.length < head.length)
        ]

    def _length_of(self, frame: Frame) -> int:
        head = self.logs.head(frame.log) if isinstance(frame, Segment) else None
        return head.length if head else 0

    def _send(self, frames: Iterable[tuple[bytes, Frame]]) -> None:
        for key, frame in frames:
            if (talk := self.talks.get(key)) is not None:
                self._send_to(talk, Lane.MEMORY, [frame])

    def _send_to(self, talk: Talk, lane: Lane, frames: Iterable[Frame]) -> None:
        for frame in frames:
            fit = _fit_for(frame, talk.may_read) if lane is Lane.MEMORY else frame
            if fit is not None and talk.held < MOST_BYTES_WAITING:
                with suppress(asyncio.QueueFull):
                    talk.waiting.put_nowait((lane, fit))
                    talk.held += _size_of(fit)
                    talk.words += _tells(fit)

    async def _write(self, talk: Talk) -> None:
        with suppress(ConnectionEnded):
            while True:
                lane, frame = await talk.waiting.get()
                talk.held -= _size_of(frame)
                if lane not in talk.lanes:
                    # A stream that nothing was said on is not there for the other side.
                    self._read(talk, await talk.connection.stream(lane))
                await talk.lanes[lane].send(wire.encode(frame))

    async def _tell_status(self, talk: Talk) -> None:
        while talk.connection.ended is None:
            self._send_to(talk, Lane.STATUS, [await self._do(self._status)])
            await asyncio.sleep(self._pace.tell)

    async def _solve(self, offer: TaskOffer) -> None:
        assert self._solver is not None
        async with self._solving:
            try:
                trace, spent = await self._solver(offer)
            except ReasonBankError as error:
                trace, spent = in_vain(offer.task, str(error)), 0
        frames = await self._do(self.tasks.finished, offer, trace, spent)
        if (talk := self.talks.get(bytes.fromhex(offer.peer or ""))) is not None:
            self._send_to(talk, Lane.TASK, frames)

    # The bank

    async def publish(self) -> None:
        now = asyncio.get_running_loop().time()
        channels = {
            channel
            for talk in self.talks.values()
            if talk.has_told or now - talk.since > self._pace.patience
            for channel in talk.may_read
            if self._lacks.get(channel, now) <= now
        }
        for grown in await self._do(self.logs.publish, channels):
            self._send(await self._do(self.node.grown, grown.log, grown.first))

    async def _look(self) -> None:
        if await self._do(self._has_changed):
            await self._look_at_rights()
            await self.publish()
        for talk in list(self.talks.values()):
            self._send_to(talk, Lane.TASK, await self._do(self.tasks.due, talk.peer))

    async def _tick(self) -> None:
        self._send(await self._do(self.node.tick))
        await self._look_at_rights()

    async def _look_at_rights(self) -> None:
        """They are not what they were when the connection began: time goes on, and a person may
        have said something else."""
        for talk in list(self.talks.values()):
            before = (talk.may_read, talk.may_write)
            try:
                talk.peer, rights = await self._do(self._rights, talk.peer.key)
            except ReasonBankError as problem:
                self._start(talk.connection.close(str(problem)))
                await self._end(talk)
                continue
            channels = talk.let(rights)
            if (talk.may_read, talk.may_write) != before and self.talks.get(talk.key) is talk:
                self._send(await self._do(self.node.connected, talk.key, channels))

    def _has_changed(self) -> bool:
        """Since the last look, or since somebody new came."""
        seen = (self.context.store.ledger.version(), frozenset(self.talks))
        changed = seen != self._seen
        self._seen = seen
        return changed

    def _known(self) -> list[Peer]:
        return [peer for peer in self.context.read().peers.all() if peer.revoked_at is None]

    def _rights(self, key: str) -> tuple[Peer, Rights]:
        peer = self._peer(key)
        if peer is None or peer.revoked_at is not None:
            raise NotInvited("cut off")
        return peer, membership.may(self.context, None, peer)

    def _peer(self, key: str) -> Peer | None:
        return self.context.read().peers.peer(key)

    def _is_alone_with(self, key: str, seconds: float) -> None:
        until = self.context.now() + round(seconds * 1e6)
        self.context.store.write(lambda txn: txn.peers.set_state(ALONE + key, str(until)))

    def _talks_elsewhere(self, key: str) -> bool:
        left = int(self.context.read().peers.state(ALONE + key) or 0) - self.context.now()
        return 0 < left <= ALONE_SECONDS * 1e6  # Else the clock was set back meanwhile.

    def _status(self) -> Status:
        return status_of(self.context)

    def _keep_status(self, key: str, status: Status) -> None:
        told = {
            "name": status.name, "version": status.version, "memories": status.memories,
            "load": status.load, "at": self.context.now(),
        }  # fmt: skip

        def work(txn: Writing) -> None:
            txn.peers.set_state(STATUS + key, json.dumps(told))
            if (peer := txn.peers.peer(key)) is not None:
                txn.peers.put(replace(peer, seen_at=self.context.now()))

        self.context.store.write(work)

    async def _do(self, work: Callable[..., T], *arguments: object) -> T:
        """In the thread that has the bank."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, *arguments))

    def _note(self, level: int, peer: Peer | None, what: str, *, exc_info: bool = False) -> None:
        """For whoever reads the log: a line, and no more of them than a person would read. Whoever
        calls again and again, and lies each time in other words, fills no disk."""
        now = asyncio.get_running_loop().time()
        key = peer.key if peer is not None else ""
        since, count, last = self._noted.get(key, (now, 0, ""))
        if now - since > NOTED_SECONDS:
            since, count, last = now, 0, ""
        if what == last or count > MOST_NOTED:
            return
        self._noted[key] = (since, count + 1, what)
        if count == MOST_NOTED:
            what, exc_info = f"more than {MOST_NOTED} things to say; others go unsaid now", False
        shown = "".join(letter if letter.isprintable() else " " for letter in what[:LONGEST_NOTE])
        name = peer.name if peer is not None else "the bus"
        _log.log(level, "%s: %s", name, shown, exc_info=exc_info)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._note(logging.ERROR, None, repr(error))


def status_of(context: Context) -> Status:
    """How this bank is, as others may know it."""
    memories = sum(place.memories for place in context.read().workspaces())
    return Status(membership.name_of(context), version("reasonbank"), memories, os.getloadavg()[0],
                  context.now())  # fmt: skip


def _size_of(frame: Frame) -> int:
    """What it takes while it waits; only what may be long counts."""
    match frame:
        case Segment(entries=entries):
            return sum(len(entry.payload or b"") + AN_ENTRY for entry in entries)
        case Fork(one=one, other=other):
            return AN_ENTRY * (len(one.entries) + len(other.entries))
        case Have(heads=heads):
            return AN_ENTRY * len(heads)
    return AN_ENTRY


def _tells(frame: Frame) -> bool:
    """Or asks for something that somebody has."""
    return isinstance(frame, Segment | Fork) or (
        isinstance(frame, Want) and not frame.log.epoch.startswith(ECHO)
    )


AN_ENTRY = 1_000
"""Bytes that one takes besides what it says."""


def _is_in(frame: Segment | Fork, channels: Collection[str]) -> bool:
    log = frame.log if isinstance(frame, Segment) else frame.one.log
    return log.channel in channels


def _fit_for(frame: Frame, channels: Collection[str]) -> Frame | None:
    """What of it a peer may be told that may know of these channels. It may always be asked."""
    match frame:
        case Have(heads=heads):
            return Have([head for head in heads if head.log.channel in channels])
        case Announce(head=head):
            return frame if head.log.channel in channels else None
        case Segment() | Fork():
            return frame if _is_in(frame, channels) else None
    return frame
