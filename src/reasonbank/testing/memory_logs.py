"""The logs of a bank in memory: for tests, and as the smallest example of ``Logs``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice

import msgspec

from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import (
    MOST_LOGS_OF_ONE,
    SALT,
    ZERO,
    Forged,
    Taken,
    bare,
    differ,
    digest_of,
    link_of,
    packed,
    parting,
    signed,
    weighed,
)
from reasonbank.peers.wire import MOST_LOGS, Entry, Fork, Head, Log, Segment


@dataclass
class Story:
    """What is kept of a log."""

    entries: list[Entry] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    signatures: dict[int, bytes] = field(default_factory=dict)
    fork: int | None = None
    proof: Fork | None = None

    @property
    def length(self) -> int:
        """How many entries count."""
        return len(self.entries) if self.fork is None else min(len(self.entries), self.fork)

    def keep(self, new: Iterable[tuple[Entry, bytes]], signature: bytes) -> None:
        for entry, link in new:
            self.entries.append(entry)
            self.links.append(link)
        self.signatures[len(self.entries) - 1] = signature

    def part(self, fork: int, proof: Fork) -> None:
        self.fork, self.proof = fork, proof
        last = min((seq for seq in self.signatures if seq >= fork - 1), default=len(self.entries))
        end = last + 1 if fork else 0
        del self.entries[end:], self.links[end:]
        self.signatures = {seq: mark for seq, mark in self.signatures.items() if seq < end}

    def copy(self) -> Story:
        return replace(
            self,
            entries=self.entries.copy(),
            links=self.links.copy(),
            signatures=self.signatures.copy(),
        )


class MemoryLogs:
    def __init__(self) -> None:
        self.stories: dict[Log, Story] = {}
        self._heads: dict[Log, Head] = {}
        self._of_owner: Counter[bytes] = Counter()
        self._brought: Counter[bytes] = Counter()

    def append(self, identity: Identity, log: Log, *payloads: bytes) -> int:
        """Say something in a log of one's own, under one signature; return where it begins."""
        story = self.stories.setdefault(log, Story())
        first = len(story.entries)
        new = drafted(log, first, story.links[-1] if first else ZERO, payloads)
        story.keep(new, signed(identity, new[-1][1]))
        self._heads.pop(log, None)
        return first

    def redact(self, log: Log, seq: int) -> None:
        entries = self.stories[log].entries
        entries[seq] = msgspec.structs.replace(entries[seq], salt=None, payload=None)

    def copy(self) -> MemoryLogs:
        other = MemoryLogs()
        other.stories = {log: story.copy() for log, story in self.stories.items()}
        other._of_owner, other._brought = self._of_owner.copy(), self._brought.copy()
        return other

    def heads(self, channels: Collection[str]) -> list[Head]:
        heads = (self.head(log) for log in self.stories if log.channel in channels)
        return [head for head in heads if head]

    def head(self, log: Log) -> Head | None:
        if log not in self._heads and (story := self.stories.get(log)):
            length = story.length
            link = story.links[length - 1] if length else ZERO
            self._heads[log] = Head(log, length, link, story.fork)
        return self._heads.get(log)

    def segment(self, log: Log, first: int) -> Segment | None:
        story = self.stories.get(log)
        if story is None or first >= story.length:
            return None
        entries = islice(story.entries, first, None)
        return packed(log, ((each, story.signatures.get(each.seq)) for each in entries))

    def take(self, segment: Segment, via: bytes) -> Taken:
        log = segment.log
        story = self.stories.get(log) or Story()
        try:
            found = weighed(segment, len(story.entries), story.fork, story.links.__getitem__)
        except Forged as error:
            return Taken(refused=str(error))
        if found.differs is not None:
            ours = self.segment(log, found.differs)
            assert ours is not None  # A story ends with a signature.
            proof = bare(ours, segment)
            story.part(found.differs, proof)
            self._heads.pop(log, None)
            return Taken(fork=proof)
        if not found.new:
            return Taken(missing=found.missing)
        if not self._admit(log, story, via):
            return Taken(refused="more logs than anybody needs")
        before = story.length
        story.keep(found.new, segment.signature)
        self._heads.pop(log, None)
        return Taken(new=story.length - before)

    def forked(self, proof: Fork, via: bytes) -> bool:
        log = proof.one.log
        story = self.stories.get(log) or Story()
        if story.fork is not None and story.fork <= parting(proof.one, proof.other):
            return False
        fork = differ(proof)
        if not self._admit(log, story, via):
            return False
        story.part(fork, bare(proof.one, proof.other))
        self._heads.pop(log, None)
        return True

    def proof(self, log: Log) -> Fork | None:
        story = self.stories.get(log)
        return story.proof if story else None

    def _admit(self, log: Log, story: Story, via: bytes) -> bool:
        if log in self.stories:
            return True
        if self._of_owner[log.key] >= MOST_LOGS_OF_ONE or self._brought[via] >= MOST_LOGS:
            return False
        self._of_owner[log.key] += 1
        self._brought[via] += 1
        self.stories[log] = story
        return True


def drafted(
    log: Log, first: int, prev: bytes, payloads: Iterable[bytes]
) -> list[tuple[Entry, bytes]]:
    """Entries with their links, as a bank would write them."""
    new = []
    for seq, payload in enumerate(payloads, first):
        salt = bytes(SALT)
        entry = Entry(
            seq=seq, prev=prev, digest=digest_of(salt, payload), id=f"event-{seq}",
            type="memory.recorded", subject=f"memory-{seq}", workspace="project", counter=seq + 1,
            at=1_000_000 * seq, author="ann", principal="person", surface="cli", salt=salt,
            payload=payload,
        )  # fmt: skip
        prev = link_of(log, entry)
        new.append((entry, prev))
    return new
