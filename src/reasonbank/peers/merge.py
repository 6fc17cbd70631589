"""What a bank makes of the logs of others: links, signatures, two stories. Pure.

Every bank may pass on every log: it is the owner's signature that counts. Each entry names the one
before it by its link, and the signature is over the link of the last one, so that it vouches for
all before. An owner who signs two different entries at one place tells two stories: from there on
nothing of that log counts anywhere, and the proof is passed on, so that all banks end up equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from reasonbank.errors import ReasonBankError
from reasonbank.peers.identity import Identity, verify
from reasonbank.peers.wire import (
    LONGEST_FRAME,
    MOST_ENTRIES,
    Entry,
    Fork,
    Head,
    Log,
    Segment,
)

ZERO = bytes(32)
"""The link before the first entry."""
SALT = 32
"""Bytes. Were its length free, bytes could move between it and the payload unnoticed."""
LONGEST_SEGMENT = LONGEST_FRAME // 2 - 1024
"""Bytes. Two of them are a proof, and that must fit into one frame."""
LONGEST_PAYLOAD = LONGEST_SEGMENT - 16_384
"""Bytes. With the longest names there are, it is still a segment of its own."""
MOST_LOGS_OF_ONE = 1_000
"""One owner's: channels times epochs."""

_MARK = b"reasonbank log\0"
"""Nothing else that a bank signs begins so."""
_encode = msgspec.msgpack.Encoder().encode


class Forged(ReasonBankError):
    """What came is not what its owner signed; whoever sent it did not check it, or made it."""


class Taken(NamedTuple):
    new: int = 0
    """Entries that were not known here and count (those from a fork on do not)."""
    missing: int | None = None
    """Ask for the log from here on: what came does not follow from what is here, either because
    something is missing between or because the two stories differ earlier."""
    fork: Fork | None = None
    """It tells another story than was known."""
    refused: str | None = None


class Logs(Protocol):
    """The logs that a bank keeps, its own and others'.

    Requirements: of each log one story is kept, from entry 0 on without gaps, and it ends with a
    signed entry. What is kept is never replaced: a copy of an entry without its payload changes
    nothing, nor does one with a payload that was forgotten here; one that somebody left out on the
    way may be filled in. Of a log that is known to be
    forked the entries from the fork on do not count, and are kept only as far as the next signed
    entry, without which those before could not be proven to others. The lowest known fork counts,
    and its proof stays.
    """

    def heads(self, channels: Collection[str]) -> list[Head]:
        """Of all logs of these channels, the forked ones too; of these, ``length`` is at most the
        fork, and ``link`` that of the last entry that counts."""
        ...

    def head(self, log: Log) -> Head | None: ...

    def segment(self, log: Log, first: int) -> Segment | None:
        """The entries from ``first`` on, as ``packed`` cuts them; None if there are none, or if
        none of them counts."""
        ...

    def take(self, segment: Segment, via: bytes) -> Taken:
        """Keep what ``weighed`` finds new. ``via`` is the key of the peer that brought it. A new
        log is refused where its owner has MOST_LOGS_OF_ONE here or ``via`` has brought MOST_LOGS.
        """
        ...

    def forked(self, proof: Fork, via: bytes) -> bool:
        """Whether it was new: the log was not known to be forked so early. Raises Forged."""
        ...

    def proof(self, log: Log) -> Fork | None:
        """Of the lowest fork that is known, as ``bare`` cuts it."""
        ...


def digest_of(salt: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(salt + b"\0" + payload).digest()


def link_of(log: Log, entry: Entry) -> bytes:
    fields = (
        log.key, log.epoch, log.channel, entry.seq, entry.prev, entry.digest, entry.id, entry.type,
        entry.subject, entry.workspace, entry.counter, entry.at, entry.author, entry.principal,
        entry.surface,
    )  # fmt: skip
    return hashlib.sha256(_encode(fields)).digest()


def signed(identity: Identity, link: bytes) -> bytes:
    return identity.sign(_MARK + link)


def chained(segment: Segment) -> list[bytes]:
    """The links of its entries, if they follow one another and their payloads are what they say.
    Whether its owner signed that is another question: asking it costs more than all this."""
    entries = segment.entries
    if len(_encode(segment)) > LONGEST_SEGMENT:
        raise Forged("a segment that is too long to be passed on")
    seq = entries[0].seq
    prev = ZERO if seq == 0 else entries[0].prev
    links = []
    for entry in entries:
        if entry.seq != seq or entry.prev != prev:
            raise Forged(f"entry {entry.seq} does not follow the one before it")
        if entry.salt is not None and entry.payload is not None:
            if len(entry.salt) != SALT or digest_of(entry.salt, entry.payload) != entry.digest:
                raise Forged(f"entry {entry.seq} has another payload than its log says")
        elif entry.salt is not None or entry.payload is not None:
            raise Forged(f"entry {entry.seq} has half of what makes its digest")
        prev = link_of(segment.log, entry)
        links.append(prev)
        seq += 1
    return links


def verified(segment: Segment) -> list[bytes]:
    """The links of its entries. Raises Forged unless the log's owner has signed all of it."""
    links = chained(segment)
    _must_be_signed(segment, links)
    return links


def _must_be_signed(segment: Segment, links: list[bytes]) -> None:
    if not verify(segment.log.key, _MARK + links[-1], segment.signature):
        raise Forged("a segment that the owner of its log has not signed")


class Weighed(NamedTuple):
    """What to do with a segment; at most one of the three."""

    new: Sequence[tuple[Entry, bytes]] = ()
    """Entries to keep behind the others, with their links. The last one is signed."""
    missing: int | None = None
    differs: int | None = None
    """Where it tells another story, earlier than any that is known."""


def weighed(
    segment: Segment, length: int, fork: int | None, link: Callable[[int], bytes]
) -> Weighed:
    """``length``: how many entries are kept here, those behind a ``fork`` too; ``link`` gives the
    link of each of these. Raises Forged."""
    first, last = segment.entries[0].seq, segment.entries[-1]
    known = length if fork is None else min(length, fork)
    if fork is not None and first >= fork:
        return Weighed()
    if last.seq < known and link_of(segment.log, last) == link(last.seq):
        return Weighed()  # Most of what comes has come before, from others.
    if first > known:
        return Weighed(missing=known)
    links = chained(segment)
    if first > 0 and segment.entries[0].prev != link(first - 1):
        # Halves, so that the place where the stories part is found in a few questions. Nobody
        # answers for the claim yet: it costs its maker a segment, and us a question.
        return Weighed(missing=first // 2)
    for seq, theirs in zip(range(first, known), links, strict=False):
        if theirs != link(seq):
            _must_be_signed(segment, links)
            return Weighed(differs=seq)
    if first + len(links) <= length or known == fork:
        return Weighed()
    _must_be_signed(segment, links)
    return Weighed(list(zip(segment.entries, links, strict=True))[length - first :])


def packed(log: Log, rows: Iterable[tuple[Entry, bytes | None]]) -> Segment | None:
    """The longest segment of these entries in a row, each with its signature if it has one, that
    ends with a signed one and fits."""
    entries: list[Entry] = []
    room, end, signature = LONGEST_SEGMENT - _AROUND, 0, b""
    for entry, mark in rows:
        room -= len(_encode(entry))
        if room < 0 or len(entries) == MOST_ENTRIES:
            break
        entries.append(entry)
        if mark is not None:
            end, signature = len(entries), mark
    return Segment(log, entries[:end], signature) if end else None


_AROUND = 2048
"""Bytes of a segment besides its entries, at most: names have 256 letters of up to four bytes."""


def bare(one: Segment, other: Segment) -> Fork:
    """The proof that two verified segments differ, and no more than that: what they say may have to
    be forgotten one day, and a proof has to stay."""
    differs = parting(one, other)
    return Fork(_bare_from(differs, one), _bare_from(differs, other))


def _bare_from(seq: int, segment: Segment) -> Segment:
    entries = segment.entries[seq - segment.entries[0].seq :]
    left = [msgspec.structs.replace(each, salt=None, payload=None) for each in entries]
    return Segment(segment.log, left, segment.signature)


def differ(proof: Fork) -> int:
    """Where its two stories part. Raises Forged if it proves nothing."""
    differs = parting(proof.one, proof.other)
    verified(proof.one)
    verified(proof.other)
    return differs


def parting(one: Segment, other: Segment) -> int:
    """Of segments that may begin at different places, as long as nothing differs before."""
    if one.log != other.log:
        raise Forged("a proof about two logs proves nothing")
    begin = max(one.entries[0].seq, other.entries[0].seq)
    pairs = zip(one.entries[begin - one.entries[0].seq :],
                other.entries[begin - other.entries[0].seq :],
                strict=False)  # fmt: skip
    for ours, theirs in pairs:
        if ours.seq != theirs.seq or ours.prev != theirs.prev:
            break
        if link_of(one.log, ours) != link_of(one.log, theirs):
            return ours.seq
    raise Forged("a proof of two stories in which they do not part")
