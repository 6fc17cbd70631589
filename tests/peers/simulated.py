"""Ten banks and a network that loses, delays, repeats and reorders, all out of one number."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import combinations

import msgspec

from reasonbank.peers import merge, wire
from reasonbank.peers.gossip import Frames, Node
from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import Taken, differ
from reasonbank.peers.wire import Announce, Fork, Frame, Have, Head, Log, Segment, Want
from reasonbank.testing.memory_logs import MemoryLogs, Story

BANKS = 10
CHANNELS = ("org:acme", "team:acme/blue", "team:acme/red", "project:web")
PATIENCE = 150
"""Rounds in which all banks must have become equal. It takes about ten."""
FORGED = b'{"forged":1}'
STORM = 300_000
"""Frames in a life. Ten thousand are usual."""
replaced = msgspec.structs.replace

_identity = functools.lru_cache(maxsize=64)(Identity.of)


class OwnLogs(MemoryLogs):
    """Logs of a bank that notices when others know more of what it said than it does itself."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.key = key
        self.outdated = False

    def take(self, segment: Segment, via: bytes) -> Taken:
        taken = super().take(segment, via)
        if segment.log.key == self.key and (taken.new or taken.fork):
            self.outdated = True
        return taken

    def forked(self, proof: Fork, via: bytes) -> bool:
        new = super().forked(proof, via)
        self.outdated = self.outdated or (new and proof.one.log.key == self.key)
        return new


class Bank:
    honest = True

    def __init__(self, world: World, number: int, channels: tuple[str, ...]) -> None:
        self.world, self.number, self.channels = world, number, channels
        self.identity = _identity(f"bank {number}")
        self.key = self.identity.key
        self.logs = OwnLogs(self.key)
        self.epoch = self._an_epoch()
        self.restored = False
        self.group = 0
        self.start()

    def _an_epoch(self) -> str:
        """By lot, not by counting: what was counted may be lost, too."""
        return f"{self.world.rng.getrandbits(48):012x}"

    def start(self) -> None:
        self.up = True
        self.node = Node(self.logs, self.key, random.Random(self.world.rng.getrandbits(32)))

    def log(self, channel: str) -> Log:
        return Log(self.key, self.epoch, channel)

    def append(self, channel: str, count: int) -> None:
        log = self.log(channel)
        said = [b'{"said":%d}' % self.world.rng.getrandbits(30) for _ in range(count)]
        first = self.logs.append(self.identity, log, *said)
        self.send(self.node.grown(log, first))

    def send(self, frames: Frames) -> None:
        self.world.send(self.number, frames)

    def received(self, peer: bytes, frame: Frame) -> None:
        self.send(self.node.received(peer, frame))
        if self.logs.outdated:
            self.logs.outdated, self.epoch = False, self._an_epoch()

    def tick(self) -> None:
        self.send(self.node.tick())

    def on_disk(self) -> dict[Log, Story]:
        return {log: story.copy() for log, story in self.logs.stories.items()}

    def come_back_with(self, stories: dict[Log, Story], *, own: bool) -> None:
        """After a crash. What a bank says itself is on disk before anybody hears it; only a backup
        (``own``) may know less."""
        now = self.logs.stories
        if own:
            self.restored = True
        else:
            stories |= {log: story for log, story in now.items() if log.key == self.key}
        self.logs = OwnLogs(self.key)
        self.logs.stories = stories
        self.start()


class Liar(Bank):
    """Tells several stories, forges, announces what is not there, and is silent when asked."""

    honest = False

    def __init__(self, world: World, number: int, channels: tuple[str, ...]) -> None:
        super().__init__(world, number, channels)
        self.others: dict[Log, list[MemoryLogs]] = {}

    def received(self, peer: bytes, frame: Frame) -> None:
        rng = self.world.rng
        if isinstance(frame, Want):
            if rng.random() < 0.3:
                return
            if stories := self.others.get(frame.log):
                segment = rng.choice([self.logs, *stories]).segment(frame.log, frame.first)
                self.send([(peer, segment)] if segment else [])
                return
        super().received(peer, frame)

    def lie(self) -> None:
        self.world.rng.choice((self.part, self.part, self.forge, self.forge, self.boast))()

    def _some_peers(self) -> list[bytes]:
        peers = [bank.key for bank in self.world.peers_of(self.number)]
        return self.world.rng.sample(peers, min(len(peers), self.world.rng.randint(1, 4)))

    def part(self) -> None:
        """Another story, to some."""
        rng = self.world.rng
        log = self.log(rng.choice(self.channels))
        stories = self.others.setdefault(log, [])
        if stories and rng.random() < 0.5:
            other = rng.choice(stories)
        elif story := self.logs.stories.get(log):
            other = MemoryLogs()
            other.stories[log] = parted(story, rng.randint(0, len(story.entries)))
            stories.append(other)
            del stories[:-3]
        else:
            return
        first = other.append(self.identity, log, b'{"lie":%d}' % rng.getrandbits(30))
        segment = other.segment(log, rng.randint(0, first))
        self.send([(key, segment) for key in self._some_peers() if segment])

    def forge(self) -> None:
        rng = self.world.rng
        log = rng.choice(list(self.logs.stories) or [self.log(self.channels[0])])
        length = len(self.logs.stories[log].entries) if log in self.logs.stories else 0
        segment = self.logs.segment(log, rng.randint(0, max(0, length - 1)))
        if segment is None:
            return
        forged = rng.choice(FORGERIES)(segment, self.identity)
        as_proof: Frame = Fork(segment, forged)
        frame = forged if rng.random() < 0.7 else as_proof
        self.send([(key, frame) for key in self._some_peers()])

    def boast(self) -> None:
        rng = self.world.rng
        known = list(self.logs.stories) or [self.log(self.channels[0])]
        heads = []
        for _ in range(rng.choice((1, 1, 40))):
            log = rng.choice(known)
            if rng.random() < 0.3:
                log = replaced(log, epoch=f"{rng.getrandbits(40)}")
            if rng.random() < 0.1:
                log = replaced(log, channel="team:acme/secret")
            fork = rng.choice((None, None, None, 0, 3))
            heads.append(Head(log, rng.choice((0, 1, 5, 10**18)), rng.randbytes(32), fork))
        frame: Frame = rng.choice(
            (Announce(heads[0]), Have(heads), Want(heads[0].log, heads[0].length))
        )
        self.send([(key, frame) for key in self._some_peers()])


def parted(story: Story, end: int) -> Story:
    marks = {seq: mark for seq, mark in story.signatures.items() if seq < end}
    return Story(story.entries[:end], story.links[:end], marks)


def _with_last(segment: Segment, **changes: object) -> Segment:
    entries = [*segment.entries[:-1], replaced(segment.entries[-1], **changes)]
    return replaced(segment, entries=entries)


def _signed_by(identity: Identity, segment: Segment) -> Segment:
    link = merge.link_of(segment.log, segment.entries[-1])
    return replaced(segment, signature=merge.signed(identity, link))


FORGERIES: tuple[Callable[[Segment, Identity], Segment], ...] = (
    lambda segment, _: replaced(segment, signature=bytes(64)),
    lambda segment, _: _with_last(segment, payload=FORGED, salt=bytes(32)),
    lambda segment, _: _with_last(segment, author="mallory"),
    lambda segment, _: _with_last(segment, prev=bytes(32)),
    lambda segment, _: _with_last(segment, seq=segment.entries[-1].seq + 1),
    lambda segment, _: replaced(segment, entries=segment.entries[:1] + segment.entries[2:]),
    lambda segment, liar: _signed_by(liar, _with_last(segment, author="mallory")),
    lambda segment, liar: replaced(segment, log=replaced(segment.log, key=liar.key)),
    # No forgery, and allowed to everybody: what was said may be forgotten.
    lambda segment, _: _with_last(segment, payload=None, salt=None),
)


class World:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 0
        self.counts: Counter[str] = Counter()
        self.loss, self.twice = rng.choice((0.0, 0.02, 0.2)), rng.choice((0.0, 0.05))
        self.delay = rng.choice((1, 4, 15))
        self._queue: list[tuple[int, int, int, int, Frame]] = []
        self._serial = 0
        liars = rng.choice((0, 1, 1, 2))
        self.banks = [
            (Liar if number >= BANKS - liars else Bank)(
                self, number, tuple(rng.sample(CHANNELS, rng.choice((2, 3, 4, 4))))
            )
            for number in range(BANKS)
        ]
        self._numbers = {bank.key: bank.number for bank in self.banks}
        density = rng.choice((0.2, 0.2, 0.3, 0.3, 0.4, 1.0))
        self.pairs = [
            (one, other)
            for one, other in combinations(range(BANKS), 2)
            if rng.random() < density or other == one + 1
        ]
        self.neighbours: list[list[int]] = [[] for _ in self.banks]
        for one, other in self.pairs:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)
        self.doomed: dict[int, tuple[int, dict[Log, Story]]] = {}
        for pair in self.pairs:
            self.connect(*pair)

    # The network

    def peers_of(self, number: int) -> list[Bank]:
        return [self.banks[each] for each in self.neighbours[number]]

    def connect(self, one: int, other: int) -> None:
        a, b = self.banks[one], self.banks[other]
        if a.up and b.up and a.group == b.group:
            shared = [channel for channel in a.channels if channel in b.channels]
            a.send(a.node.connected(b.key, shared))
            b.send(b.node.connected(a.key, shared))

    def part_ways(self, one: int, other: int) -> None:
        a, b = self.banks[one], self.banks[other]
        a.send(a.node.disconnected(b.key))
        b.send(b.node.disconnected(a.key))

    def send(self, source: int, frames: Frames) -> None:
        rng = self.rng
        for key, frame in frames:
            for _ in range(2 if rng.random() < self.twice else 1):
                if rng.random() >= self.loss:
                    self._serial += 1
                    due = self.now + int(rng.random() * self.delay)
                    number = self._numbers[key]
                    heappush(self._queue, (due, self._serial, source, number, frame))

    def pass_time(self, steps: int = 1) -> None:
        self.now += steps
        while self._queue and self._queue[0][0] <= self.now:
            *_, source, target, frame = heappop(self._queue)
            bank, sender = self.banks[target], self.banks[source]
            if bank.up and bank.group == sender.group:
                self.counts["frames"] += 1
                assert self.counts["frames"] < STORM
                # As bytes, now and then: what is not understood would be lost in earnest.
                if self.counts["frames"] % 8 == 0:
                    frame = wire.decode(wire.encode(frame))
                bank.received(sender.key, frame)

    # What happens

    def step(self) -> None:
        rng = self.rng
        name = rng.choices(NAMES, WEIGHTS)[0]
        self.counts[name] += 1
        getattr(self, "_" + name)(self.banks[rng.randrange(BANKS)])
        for number, (due, stories) in list(self.doomed.items()):
            if due <= self.now:
                self._fall(number, stories)
        self.pass_time()

    def _append(self, bank: Bank) -> None:
        if bank.up:
            channel = self.rng.choice(bank.channels)
            bank.append(channel, self.rng.choice((1, 1, 1, 2, 5)))

    def _forget(self, bank: Bank) -> None:
        stories = [(log, each) for log, each in bank.logs.stories.items() if each.entries]
        if stories:
            log, story = self.rng.choice(stories)
            bank.logs.redact(log, self.rng.randrange(len(story.entries)))

    def _tick(self, bank: Bank) -> None:
        if bank.up:
            bank.tick()

    def _wait(self, _: Bank) -> None:
        self.pass_time(5)

    def _partition(self, _: Bank) -> None:
        """Some notice at once that the other end is gone, some only when it is back."""
        for bank in self.banks:
            bank.group = self.rng.randrange(2)
        for one, other in self.pairs:
            apart = self.banks[one].group != self.banks[other].group
            if apart and self.rng.random() < 0.5:
                self.part_ways(one, other)

    def _heal(self, _: Bank) -> None:
        groups = [bank.group for bank in self.banks]
        for bank in self.banks:
            bank.group = 0
        for one, other in self.pairs:
            if groups[one] != groups[other] and self.rng.random() < 0.7:
                self.connect(one, other)

    def _reconnect(self, bank: Bank) -> None:
        self.connect(bank.number, self.rng.choice(self.neighbours[bank.number]))

    def _crash(self, bank: Bank) -> None:
        """What is on disk now is what it will come back with: the rest is not synced in time."""
        if bank.up and bank.number not in self.doomed:
            self.doomed[bank.number] = (self.now + self.rng.randint(0, 20), bank.on_disk())

    def _fall(self, number: int, stories: dict[Log, Story]) -> None:
        del self.doomed[number]
        bank = self.banks[number]
        bank.come_back_with(stories, own=bank.honest and self.rng.random() < 0.1)
        for other in self.neighbours[number]:
            # They notice at once, or when it comes back.
            if self.rng.random() < 0.5:
                peer = self.banks[other]
                peer.send(peer.node.disconnected(bank.key))
        bank.up = False

    def _return(self, _: Bank) -> None:
        for bank in self.banks:
            if not bank.up:
                bank.up = True
                for other in self.neighbours[bank.number]:
                    self.connect(bank.number, other)

    def _lie(self, bank: Bank) -> None:
        for each in self.banks:
            if isinstance(each, Liar) and each.up:
                each.lie()

    # What must be

    def healed(self) -> int:
        """All is well from now on, but liars lie: the rounds until all are equal."""
        self.doomed = {}
        self._return(self.banks[0])
        for bank in self.banks:
            bank.group = 0
        for one, other in self.pairs:
            a, b = self.banks[one], self.banks[other]
            if not (a.node.talks_to(b.key) and b.node.talks_to(a.key)):
                self.connect(one, other)
        self.loss = 0.0
        for round in range(PATIENCE):
            self.pass_time(self.delay)
            if not self.differences():
                return round
            for bank in self.banks:
                bank.tick()
                if isinstance(bank, Liar):
                    bank.boast()
        raise AssertionError(f"after {PATIENCE} rounds: {self.differences()[:3]}")

    def differences(self) -> list[str]:
        found = []
        for channel in CHANNELS:
            for group in self._groups(channel):
                heads = [{head.log: head for head in bank.logs.heads((channel,))} for bank in group]
                for bank, theirs in zip(group[1:], heads[1:], strict=True):
                    if theirs != heads[0]:
                        both = heads[0] | theirs
                        odd = [log for log in both if heads[0].get(log) != theirs.get(log)]
                        found.append(
                            f"{channel}: bank {group[0].number} {heads[0].get(odd[0])}"
                            f" bank {bank.number} {theirs.get(odd[0])}"
                        )
        return found

    def _groups(self, channel: str) -> Iterable[list[Bank]]:
        """Honest banks that can reach each other in this channel through honest ones."""
        left = [bank for bank in self.banks if bank.honest and channel in bank.channels]
        while left:
            group = [left.pop(0)]
            for bank in group:
                near = [each for each in left if each.number in self.neighbours[bank.number]]
                left = [each for each in left if each not in near]
                group += near
            yield group

    def flaws(self) -> list[str]:
        """What must not be, however equal all are."""
        found = []
        for bank in self.banks:
            for log, story in bank.logs.stories.items() if bank.honest else ():
                owner = self.banks[self._numbers[log.key]]
                if story.fork is not None:
                    if owner.honest and not owner.restored:
                        found.append(f"an honest log is taken for forked: {log}")
                    if story.proof is None or differ(story.proof) != story.fork:
                        found.append(f"a fork without a proof: {log}")
                if story.entries:
                    links = merge.verified(
                        Segment(log, story.entries, story.signatures[len(story.links) - 1])
                    )
                    if links != story.links:
                        found.append(f"links that are not those of the entries: {log}")
                if any(entry.payload == FORGED for entry in story.entries):
                    found.append(f"what its owner has not said: {log}")
                if log.channel not in bank.channels:
                    found.append(f"a log of a channel that is none of its own: {log}")
        return found

    def digest(self) -> object:
        return [sorted(map(repr, bank.logs.heads(CHANNELS))) for bank in self.banks], self.counts


CHANCES = {
    "append": 40, "forget": 5, "tick": 20, "wait": 15, "reconnect": 2, "partition": 2, "heal": 3,
    "crash": 2, "return": 3, "lie": 8,
}  # fmt: skip
NAMES, WEIGHTS = list(CHANCES), list(CHANCES.values())


def lived(seed: int, steps: int = 1000) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.counts["rounds"] = world.healed()
    return world
