"""The logs of all banks as this one keeps them, in its ledger."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import LogEntry, PeerLog, Writing, Written
from reasonbank.model import Principal
from reasonbank.peers import merge, publish, wire
from reasonbank.peers.adopt import adopt, adopt_new, entry_of
from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import Forged, Taken
from reasonbank.peers.publish import Grown, row_of
from reasonbank.peers.wire import Entry, Fork, Head, Log, Segment, Want
from reasonbank.store.context import Context
from reasonbank.store.revert import bring_back_in, take_back_in
from reasonbank.store.transfer import erase_since

MOST_LOGS = 1_000
"""That one peer brings, its own and those of others."""
MOST_BYTES = 256 * 1024 * 1024
"""That one peer brings."""
_AT_ONCE = 500
_FEW = 32


class LedgerLogs:
    """``Logs`` (see ``peers/merge.py``), where to take an entry is also to make something of it."""

    def __init__(self, context: Context, identity: Identity) -> None:
        # What comes over the bus is this bank's business, and no workspace's.
        self.context = replace(context, acts_as=Principal.BANK, surface="bus", whole=True)
        self.store = context.store
        self.identity = identity
        self.key = identity.key.hex()

    def publish(self, channels: Collection[str]) -> list[Grown]:
        return publish.publish(self.store, self.identity, channels)

    def heads(self, channels: Collection[str]) -> list[Head]:
        found = self.store.ledger.read().peers.logs(sorted(channels))
        return [self._head(log) for log in found if log.length or log.fork is not None]

    def head(self, log: Log) -> Head | None:
        found = self._find(log)
        return None if found is None else self._head(found)

    def _head(self, log: PeerLog) -> Head:
        length, link = log.length, log.link
        if log.fork is not None and log.fork < length:
            length = log.fork
            last = self.store.ledger.read().peers.entry(log.num, length - 1)
            link = last.link if last else merge.ZERO
        return Head(_wire(log), length, link, log.fork)

    def segment(self, log: Log, first: int) -> Segment | None:
        found = self._find(log)
        if found is None or (found.fork is not None and first >= found.fork):
            return None
        rows = self._rows(found.num, first)
        return merge.packed(log, ((entry_of(row), row.signature) for row in rows))

    def _rows(self, log: int, first: int) -> Iterator[LogEntry]:
        """A few at a time: of long ones only so many fit into a segment."""
        reading = self.store.ledger.read().peers
        while rows := reading.entries(log, first, _FEW):
            yield from rows
            first += len(rows)

    def take(self, segment: Segment, via: bytes) -> Taken:
        while True:
            log = self._find(segment.log)
            length, fork = (log.length, log.fork) if log else (0, None)
            try:
                weighed = merge.weighed(segment, length, fork, self._link_in(log))
            except Forged as error:
                return Taken(refused=str(error))
            if weighed.differs is not None:
                ours = self.segment(segment.log, weighed.differs)
                assert ours is not None  # A log ends with a signature.
                proof = merge.bare(ours, segment)
                self.forked(proof, via)
                return Taken(fork=proof)
            if log is not None and self._is_cut_off(log.via) and log.key != log.via:
                self.store.write(partial(self._hear_anew, log, via.hex()))
            if not weighed.new:
                try:
                    if log is not None and weighed.missing is None:
                        self._fill(log, segment, via.hex())
                except Forged as error:
                    return Taken(refused=str(error))
                return Taken(missing=weighed.missing)
            before = self.store.ledger.read().vector_position()
            taken = self.store.write(partial(self._keep, log, segment, weighed.new, via.hex()))
            if taken is not None:
                self.store.indexing.wake()
                if any(entry.type == EventType.FORGOTTEN for entry, _ in weighed.new):
                    erase_since(self.context, before)
                return taken

    def _keep(
        self, known: PeerLog | None, segment: Segment, new: Sequence[tuple[Entry, bytes]],
        via: str, txn: Writing,
    ) -> Taken | None:  # fmt: skip
        """None: another process has taken some of it meanwhile."""
        log = txn.peers.log(*_columns(segment.log))
        if log != known:
            return None
        if segment.log.key == self.identity.key:
            if segment.log.epoch == publish.epoch_of(self.store, txn.peers):
                # Others know more of what this bank said than it does: it was set back.
                publish.begin_anew(self.store, txn.peers)
        else:
            if log is not None and log.via != via == log.key:
                # Whose it is brings more of it, and answers for it from now on.
                txn.peers.comes_through(log.num, via)
                log = replace(log, via=via)
            if (refused := _too_much(txn, log, segment.log, via)) is not None:
                return Taken(refused=refused)
        log = log or txn.peers.begin(*_columns(segment.log), via=via)
        rows = [row_of(entry, link, None) for entry, link in new]
        rows[-1] = rows[-1]._replace(signature=segment.signature)
        txn.peers.extend(log, rows)
        adopt_new(self.context, txn, self.key, log, rows)
        counting = [row for row in rows if log.fork is None or row.seq < log.fork]
        return Taken(new=len(counting))

    def _is_cut_off(self, key: str) -> bool:
        peer = self.store.ledger.read().peers.peer(key)
        return peer is not None and peer.revoked_at is not None

    def _hear_anew(self, log: PeerLog, via: str, txn: Writing) -> None:
        """Whoever brought it was cut off, and with that went what it brought; now somebody else
        answers for it."""
        bring_back_in(self.context, txn, log.key, log.via)
        txn.peers.comes_through(log.num, via)
        rows = txn.peers.entries(log.num, 0, log.length)
        adopt(self.context, txn, self.key, [row.subject for row in rows])

    def _fill(self, log: PeerLog, segment: Segment, via: str) -> None:
        """What somebody left out who passed it on; nothing else differs from what is kept. Raises
        Forged: the signature is over the digest of what an entry says, and whoever passes it on
        could have put anything in its place."""
        told = {entry.seq: entry for entry in segment.entries if entry.payload is not None}
        reading = self.store.ledger.read().peers
        empty = reading.empty(log.num, min(told), max(told)) if told else {}
        rows = [
            row_of(told[seq], link, None)
            for seq, link in sorted(empty.items())
            if seq in told and link == merge.link_of(segment.log, told[seq])
        ]

        def work(txn: Writing) -> None:
            # It takes as much room as if it had come with the entry.
            if log.key == self.key or _too_much(txn, log, segment.log, via) is None:
                txn.peers.fill(log.num, rows)
                adopt(self.context, txn, self.key, [row.subject for row in rows])

        if rows:
            merge.chained(segment)
            self.store.write(work)
            self.store.indexing.wake()

    def met(self, key: bytes, channels: Collection[str]) -> list[Want]:
        """The owner of logs is here: of these channels, in which it may say something, it answers
        for them, whoever had brought them. Returns what to ask it for that others have passed on
        without what it says."""
        reading = self.store.ledger.read()
        for log in reading.peers.logs():
            if (
                log.channel in channels
                and log.key == key.hex() != log.via
                and (self._is_cut_off(log.via) or reading.taken_back_through(log.key, log.via))
            ):
                self.store.write(partial(self._hear_anew, log, log.key))
        found = reading.peers.blank(key.hex())
        return [Want(_wire(log), first) for log, first in found if log.channel in channels]

    def forked(self, proof: Fork, via: bytes) -> bool:
        found = self._find(proof.one.log)
        at = merge.parting(proof.one, proof.other)
        if found is not None and found.fork is not None and found.fork <= at:
            return False
        merge.differ(proof)
        return self.store.write(partial(self._quarantine, proof, at, via.hex()))

    def _quarantine(self, proof: Fork, at: int, via: str, txn: Writing) -> bool:
        key, epoch, channel = _columns(proof.one.log)
        log = txn.peers.log(key, epoch, channel)
        if log is None and _too_much(txn, log, proof.one.log, via) is not None:
            return False
        log = log or txn.peers.begin(key, epoch, channel, via=via)
        if log.fork is not None and log.fork <= at:
            return False
        gone = txn.peers.cut(log, at, wire.encode(merge.bare(proof.one, proof.other)))
        if key != self.key and gone:
            wanted = Written(workspace=None, origins=(key,), events=tuple(gone))
            take_back_in(self.context, txn, wanted)
        elif key == self.key and epoch == publish.epoch_of(self.store, txn.peers):
            # What stood there was said all the same, and is said again.
            publish.begin_anew(self.store, txn.peers)
        return True

    def proof(self, log: Log) -> Fork | None:
        found = self._find(log)
        if found is None or found.proof is None:
            return None
        proof = wire.decode(found.proof)
        assert isinstance(proof, Fork)
        return proof

    def adopt_all(self, key: str) -> None:
        """Make anew something of what a bank said, after a person said more about it."""
        reading = self.store.ledger.read().peers
        subjects: dict[str, None] = {}
        for log in reading.logs():
            if log.key == key:
                for first in range(0, log.length, _AT_ONCE):
                    rows = reading.entries(log.num, first, _AT_ONCE)
                    subjects |= dict.fromkeys(row.subject for row in rows)
        ids = list(subjects)
        for at in range(0, len(ids), _AT_ONCE):
            part = ids[at : at + _AT_ONCE]
            self.store.write(partial(self._adopt, part))

    def _adopt(self, subjects: list[str], txn: Writing) -> int:
        return adopt(self.context, txn, self.key, subjects)

    def _find(self, log: Log) -> PeerLog | None:
        return self.store.ledger.read().peers.log(*_columns(log))

    def _link_in(self, log: PeerLog | None) -> Callable[[int], bytes]:
        peers = self.store.ledger.read().peers

        def link(seq: int) -> bytes:
            entry = peers.entry(log.num, seq) if log else None
            assert entry is not None
            return entry.link

        return link


def _columns(log: Log) -> tuple[str, str, str]:
    return log.key.hex(), log.epoch, log.channel


def _wire(log: PeerLog) -> Log:
    return Log(bytes.fromhex(log.key), log.epoch, log.channel)


def _too_much(txn: Writing, known: PeerLog | None, log: Log, via: str) -> str | None:
    logs, size = txn.peers.brought_by(via)
    if known is not None and known.via != via:
        # Two who bring the same log have no more room than one.
        size = max(size, txn.peers.brought_by(known.via)[1])
    if size > MOST_BYTES:
        return f"that peer has brought {size:,} bytes; {MOST_BYTES:,} are the most"
    if known is None:
        own = sum(each.key == log.key.hex() for each in txn.peers.logs())
        if own >= merge.MOST_LOGS_OF_ONE or logs >= MOST_LOGS:
            return "more logs than anybody needs"
    return None
