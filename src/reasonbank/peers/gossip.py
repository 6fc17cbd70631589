"""Who is told what, and who is asked: one bank's side of all its conversations. Pure.

News goes whole to a few peers and by name to the rest, who ask for what they lack. Now and then a
peer is told all that is here, so that whatever was lost on the way is found. There is no clock and
no socket: frames come in, frames go out.

What a peer says is remembered only within limits, and it is asked for no more than it may answer at
a time: a peer that announces the world costs as much as one that announces a memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from reasonbank.peers.merge import ZERO, Forged, Logs, link_of
from reasonbank.peers.wire import (
    LONGEST_FRAME,
    MOST_LOGS,
    Announce,
    Fork,
    Frame,
    Have,
    Head,
    Log,
    Segment,
    Want,
)

Frames = list[tuple[bytes, Frame]]
"""To whom, and what; each peer's in order."""
MOST_ASKED = 32
"""Of one peer at a time."""
PATIENCE = 2
"""Ticks until what was asked is asked again."""


@dataclass
class _Peer:
    key: bytes
    channels: frozenset[str]
    heads: dict[Log, Head] = field(default_factory=dict)
    """How far it is known to know logs, those it spoke of last at the end."""
    ahead: dict[Log, None] = field(default_factory=dict)
    """Those of which it has something to tell, for when it is their turn."""
    unwanted: dict[Log, None] = field(default_factory=dict)
    """Those of which it told what was refused: it is not asked for them again."""
    agreed: dict[Log, int] = field(default_factory=dict)
    """How much of a log was seen to be the same there and here, while two stories are compared: an
    answer that comes too late for its question is not lost."""
    asked: int = 0
    unanswered: int = 0
    """How often in a row. Whoever answers is asked first."""

    def remember(self, head: Head) -> None:
        self.heads.pop(head.log, None)
        self.heads[head.log] = head
        if len(self.heads) > MOST_LOGS:
            self.disbelieve(next(iter(self.heads)))

    def refuse(self, log: Log) -> None:
        self.disbelieve(log)
        self.unwanted[log] = None
        if len(self.unwanted) > MOST_LOGS:
            del self.unwanted[next(iter(self.unwanted))]

    def disbelieve(self, log: Log) -> None:
        self.heads.pop(log, None)
        self.ahead.pop(log, None)
        self.agreed.pop(log, None)

    def apart_from(self, log: Log, first: int, guess: int) -> int:
        """Where to look next for the place where two stories part, which is before ``first``."""
        agreed = self.agreed.get(log, 0)
        if agreed >= first:
            del self.agreed[log]  # It tells yet another story now.
            return guess
        return max(guess, agreed)


@dataclass
class _Asked:
    peer: _Peer
    first: int
    searching: bool
    """For the place where two stories part."""
    ticks: int = 0


class Node:
    def __init__(self, logs: Logs, key: bytes, rng: random.Random, fanout: int = 3) -> None:
        self.key = key
        self.refused: Counter[bytes] = Counter()
        """What peers sent that was forged, of no channel of theirs, or too much."""
        self._logs = logs
        self._rng = rng
        self._fanout = fanout
        self._peers: dict[bytes, _Peer] = {}
        self._asked: dict[Log, _Asked] = {}

    def connected(self, peer: bytes, channels: Iterable[str]) -> Frames:
        """``channels``: those that both may talk about."""
        out = self.disconnected(peer)
        self._peers[peer] = _Peer(peer, frozenset(channels))
        return out + self._all_heads(self._peers[peer])

    def disconnected(self, peer: bytes) -> Frames:
        gone = self._peers.pop(peer, None)
        lost = [log for log, asked in self._asked.items() if asked.peer is gone]
        out: Frames = []
        for log in lost:
            del self._asked[log]
            out += self._go_on(log)
        return out

    def talks_to(self, peer: bytes) -> bool:
        return peer in self._peers

    def lacks(self, peer: bytes) -> int:
        """Entries that it is known to have and this bank has not."""
        them = self._peers.get(peer)
        if them is None:
            return 0
        mine = {head.log: head.length for head in self._logs.heads(them.channels)}
        return sum(max(0, head.length - mine.get(log, 0)) for log, head in them.heads.items())

    def grown(self, log: Log, first: int) -> Frames:
        """A log of our own has entries from ``first`` on that nobody has heard of."""
        segment = self._logs.segment(log, first)
        return self._spread(log, segment) if segment else []

    def tick(self) -> Frames:
        """Now and then: what was not answered is asked again, and one peer is told all heads."""
        out: Frames = []
        silent: dict[bytes, _Peer] = {}
        for log, asked in list(self._asked.items()):
            asked.ticks += 1
            if asked.ticks >= PATIENCE:
                asked.peer.unanswered += 1
                self._done(log)
                out += self._go_on(log)
                # Behind all that it has yet to be asked for.
                asked.peer.ahead.pop(log, None)
                asked.peer.ahead[log] = None
                silent[asked.peer.key] = asked.peer
        for peer in silent.values():
            out += self._more_of(peer)
        if self._peers:
            out += self._all_heads(self._rng.choice(list(self._peers.values())))
        return out

    def received(self, peer: bytes, frame: Frame) -> Frames:
        """What comes on the memory lane; anything else, and a stranger's, is not answered."""
        them = self._peers.get(peer)
        if them is None:
            return []
        match frame:
            case Have():
                return self._heard_all(them, frame)
            case Announce():
                return self._announced(them, frame.head)
            case Want():
                return self._wanted(them, frame)
            case Segment():
                return self._told(them, frame)
            case Fork():
                return self._proven(them, frame)
        return []

    # What comes

    def _heard_all(self, peer: _Peer, have: Have) -> Frames:
        """Whoever tells of ten thousand logs is not looked up ten thousand."""
        mine = {head.log: head for head in self._logs.heads(peer.channels)}
        out: Frames = []
        for log, head in {head.log: head for head in have.heads}.items():
            if not self._may(peer, log):
                continue
            peer.remember(head)
            if head == mine.get(log) or log in peer.unwanted:
                continue
            if peer.asked >= MOST_ASKED:
                peer.ahead[log] = None
            else:
                out += self._ask(peer, log)
        return out

    def _heard(self, peer: _Peer, head: Head) -> Frames:
        if not self._may(peer, head.log):
            return []
        peer.remember(head)
        return [] if head == self._logs.head(head.log) else self._ask(peer, head.log)

    def _announced(self, peer: _Peer, head: Head) -> Frames:
        asked = self._asked.get(head.log)
        if asked and asked.peer is peer and head.length <= asked.first:
            # The answer to a question about what it does not have, or no longer.
            peer.unanswered = 0
            self._done(head.log)
            if lacking(self._logs.head(head.log), head) == asked.first:
                peer.disbelieve(head.log)  # It says again what it could not show.
                return self._go_on(head.log)
        return self._heard(peer, head) + self._go_on(head.log)

    def _wanted(self, peer: _Peer, want: Want) -> Frames:
        if not self._may(peer, want.log):
            return []
        head = self._logs.head(want.log) or Head(want.log, 0, ZERO)
        answer: Frame | None
        if head.fork is not None and want.first >= head.fork:
            answer = self._logs.proof(want.log)
        else:
            answer = self._logs.segment(want.log, want.first)
        return [(peer.key, answer or Announce(head))]

    def _told(self, peer: _Peer, segment: Segment) -> Frames:
        log, last = segment.log, segment.entries[-1]
        if not self._may(peer, log):
            return []
        taken = self._logs.take(segment, peer.key)
        asked = self._asked.get(log)
        if asked and not (asked.peer is peer and asked.first == segment.entries[0].seq):
            asked = None
        if asked:
            peer.unanswered = 0
            self._done(log)
        if taken.refused is not None:
            self.refused[peer.key] += 1
            peer.refuse(log)
            return self._go_on(log) + self._more_of(peer)
        known = peer.heads.get(log)
        if known is None or known.length <= last.seq:
            peer.remember(Head(log, last.seq + 1, link_of(log, last)))
        out: Frames = []
        if taken.fork is not None:
            out += self._warn(log)
        elif taken.missing is not None:
            first = segment.entries[0].seq
            out += self._ask(peer, log, peer.apart_from(log, first, taken.missing))
        elif not taken.new:
            self._same(peer, log, last.seq + 1)
            if asked:
                out += self._in_vain(peer, log, asked, last.seq + 1)
        out += self._ask(peer, log) + self._go_on(log)
        if taken.new and not (asked and log in self._asked):
            # What had to be asked for is no news to most: its name will do.
            out += self._spread(log, None if asked else segment)
        return out + self._more_of(peer)

    def _proven(self, peer: _Peer, proof: Fork) -> Frames:
        log = proof.one.log
        if not self._may(peer, log):
            return []
        try:
            new = self._logs.forked(proof, peer.key)
        except Forged:
            self.refused[peer.key] += 1
            return []
        asked = self._asked.get(log)
        if asked and asked.peer is peer:
            peer.unanswered = 0
            self._done(log)
        head = self._logs.head(log)
        if head is not None and head.fork is not None and head.length < head.fork:
            # Likely it knows what comes before; if not, it says so.
            peer.remember(Head(log, head.fork, ZERO, head.fork))
        else:
            peer.disbelieve(log)
        out = self._warn(log, peer) if new else []
        return out + self._ask(peer, log) + self._go_on(log) + self._more_of(peer)

    def _may(self, peer: _Peer, log: Log) -> bool:
        if log.channel in peer.channels:
            return True
        self.refused[peer.key] += 1
        return False

    # What goes

    def _all_heads(self, peer: _Peer) -> Frames:
        return [(peer.key, part) for part in in_parts(self._logs.heads(peer.channels))]

    def _spread(self, log: Log, segment: Segment | None) -> Frames:
        """To those who are not known to have it: whole to a few, if it is given, and by name to
        the rest."""
        head = self._logs.head(log)
        if head is None:
            return []
        those = [
            each
            for each in self._peers.values()
            if log.channel in each.channels
            and not ((known := each.heads.get(log)) and known.length >= head.length)
        ]
        if segment is None:
            return [(each.key, Announce(head)) for each in those]
        self._rng.shuffle(those)
        few, rest = those[: self._fanout], those[self._fanout :]
        if segment.entries[-1].seq + 1 < head.length:
            rest = those
        return [
            *((each.key, segment) for each in few),
            *((each.key, Announce(head)) for each in rest),
        ]

    def _warn(self, log: Log, source: _Peer | None = None) -> Frames:
        proof = self._logs.proof(log)
        if proof is None:
            return []
        return [
            (each.key, proof)
            for each in self._peers.values()
            if log.channel in each.channels and each is not source
        ]

    # What is asked

    def _ask(self, peer: _Peer, log: Log, first: int | None = None) -> Frames:
        """For what it is known to have and we have not; from ``first`` on, where two stories are
        compared. What somebody was asked for already is on its way."""
        mine, theirs = self._logs.head(log), peer.heads.get(log)
        searching = first is not None
        if first is None and theirs is not None:
            first = lacking(mine, theirs)
            searching = mine is not None and first is not None and first < mine.length
        if first is None or log in peer.unwanted:
            peer.ahead.pop(log, None)
            return []
        asked = self._asked.get(log)
        if asked and asked.peer is peer:
            return []
        if peer.asked >= MOST_ASKED or (asked and asked.peer.unanswered <= peer.unanswered):
            peer.ahead[log] = None
            return []
        if asked:
            self._done(log)
            asked.peer.ahead[log] = None
        peer.ahead.pop(log, None)
        peer.asked += 1
        self._asked[log] = _Asked(peer, first, searching)
        return [(peer.key, Want(log, first))]

    def _same(self, peer: _Peer, log: Log, length: int) -> None:
        """So much of a log is the same there and here, if any of it counts."""
        mine = self._logs.head(log)
        if mine is not None and mine.fork is None:
            length = min(length, mine.length)
            peer.agreed[log] = max(length, peer.agreed.get(log, 0))

    def _in_vain(self, peer: _Peer, log: Log, asked: _Asked, first: int) -> Frames:
        """Its answer told nothing new: as far as it goes both stories are one."""
        mine, theirs = self._logs.head(log), peer.heads.get(log)
        if asked.searching and mine and theirs and first < min(mine.length, theirs.length):
            return self._ask(peer, log, first)
        if asked.searching or not theirs or lacking(mine, theirs) == asked.first:
            peer.disbelieve(log)  # What it has is not what it said, or not wanted here.
        return []

    def _go_on(self, log: Log) -> Frames:
        """If nobody is being asked for the log: whoever has more of it, rather one who answers."""
        if log in self._asked:
            return []
        out: Frames = []
        those = [each for each in self._peers.values() if log in each.ahead]
        for each in sorted(those, key=lambda each: each.unanswered):
            out += self._ask(each, log)
        return out

    def _more_of(self, peer: _Peer) -> Frames:
        """As many of the logs that wait as it may be asked for at a time."""
        out: Frames = []
        for log in list(peer.ahead) if peer.asked < MOST_ASKED else ():
            if log not in self._asked:
                out += self._ask(peer, log)
            if peer.asked >= MOST_ASKED:
                break
        return out

    def _done(self, log: Log) -> None:
        self._asked.pop(log).peer.asked -= 1


def lacking(mine: Head | None, theirs: Head) -> int | None:
    """From where on to ask somebody who knows a log so far; None if there is nothing to ask."""
    length, fork = (mine.length, mine.fork) if mine else (0, None)
    if theirs.fork is not None and (fork is None or theirs.fork < fork):
        return theirs.fork  # Whoever is asked for what does not count answers with the proof.
    if (theirs.length if fork is None else min(theirs.length, fork)) > length:
        return length
    if mine and theirs.length == length and length and theirs.link != mine.link:
        return length - 1
    return None


def in_parts(heads: Iterable[Head]) -> Iterator[Have]:
    part: list[Head] = []
    room = LONGEST_FRAME
    for head in heads:
        size = _AROUND + 4 * (len(head.log.epoch) + len(head.log.channel))
        if size > room or len(part) == MOST_LOGS:
            yield Have(part)
            part, room = [], LONGEST_FRAME
        part.append(head)
        room -= size
    if part:
        yield Have(part)


_AROUND = 128
"""Bytes of a head besides its names, at most."""
