"""What every ``Logs`` must do, as tests: subclass ``LogsContract`` and give it a fixture
``new_logs`` that makes empty ones.

    class TestMemoryLogs(LogsContract):
        @pytest.fixture
        def new_logs(self):
            return MemoryLogs
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest

from reasonbank.peers import merge
from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import Logs, Taken, bare, differ, signed
from reasonbank.peers.wire import Fork, Head, Log, Segment
from reasonbank.testing.memory_logs import MemoryLogs, drafted

NewLogs: TypeAlias = Callable[[], Logs]
ANN = Identity.of("ann")
LOG = Log(ANN.key, "first", "team:acme/blue")
FRIEND = Identity.of("friend").key
_replaced = msgspec.structs.replace


def said(*stretches: int, before: MemoryLogs | None = None, word: str = "said") -> MemoryLogs:
    """So many entries under each signature."""
    logs = before.copy() if before else MemoryLogs()
    for count in stretches:
        head = logs.head(LOG)
        first = head.length if head else 0
        texts = (b'{"%s":%d}' % (word.encode(), first + each) for each in range(count))
        logs.append(ANN, LOG, *texts)
    return logs


def segment(logs: Logs, first: int = 0) -> Segment:
    found = logs.segment(LOG, first)
    assert found is not None
    return found


class LogsContract:
    def known(self, new_logs: NewLogs, source: MemoryLogs) -> Logs:
        """Logs that have heard all that these have, stretch by stretch."""
        logs = new_logs()
        story = source.stories.get(LOG)
        first = 0
        for last, signature in story.signatures.items() if story else ():
            stretch = Segment(LOG, story.entries[first : last + 1], signature) if story else None
            assert stretch and logs.take(stretch, FRIEND).new == last + 1 - first
            first = last + 1
        return logs

    def test_segments_are_taken_in_a_row_and_once(self, new_logs: NewLogs) -> None:
        logs, source = new_logs(), said(2, 3, 1)
        assert logs.head(LOG) is None and logs.segment(LOG, 0) is None
        assert logs.take(segment(source, 2), FRIEND).missing == 0
        assert logs.take(segment(said(2)), FRIEND).new == 2
        assert logs.take(segment(source, 4), FRIEND).missing == 2
        assert logs.take(segment(source, 1), FRIEND).new == 4
        assert logs.take(segment(source), FRIEND) == Taken()
        assert logs.heads([LOG.channel]) == source.heads([LOG.channel]) == [logs.head(LOG)]
        assert logs.heads(["org:acme"]) == [] and logs.proof(LOG) is None
        assert segment(logs) == segment(source) and logs.segment(LOG, 6) is None

    def test_what_is_here_stays_whichever_copy_comes(self, new_logs: NewLogs) -> None:
        source = said(3)
        without = source.copy()
        without.redact(LOG, 1)
        logs = new_logs()
        assert logs.take(segment(source), FRIEND).new == 3
        assert logs.take(segment(without), FRIEND) == Taken()
        assert segment(logs) == segment(source)
        assert logs.head(LOG) == source.head(LOG)

    def test_copies_without_what_they_say_are_as_good_a_story(self, new_logs: NewLogs) -> None:
        source = said(3)
        without = source.copy()
        without.redact(LOG, 1)
        logs = new_logs()
        assert logs.take(segment(without), FRIEND).new == 3
        assert logs.take(segment(source), FRIEND) == Taken()
        assert logs.head(LOG) == source.head(LOG)

    def test_what_is_forged_changes_nothing(self, new_logs: NewLogs) -> None:
        logs = self.known(new_logs, said(2))
        whole = segment(said(4))
        changed = [*whole.entries[:-1], _replaced(whole.entries[-1], author="eve")]
        for forged in (
            _replaced(whole, entries=changed),
            _replaced(whole, signature=bytes(64)),
            _replaced(segment(said(2, word="denied")), signature=bytes(64)),
        ):
            taken = logs.take(forged, FRIEND)
            assert taken.refused and not taken.new and not taken.fork
        with pytest.raises(merge.Forged):
            logs.forked(
                Fork(whole, _replaced(segment(said(4, word="no")), signature=bytes(64))), ANN.key
            )
        assert logs.head(LOG) == said(2).head(LOG) and logs.proof(LOG) is None

    @pytest.mark.parametrize("common", [0, 1, 4, 5, 9])
    def test_from_the_fork_on_nothing_counts_and_what_is_before_can_still_be_told(
        self, new_logs: NewLogs, common: int
    ) -> None:
        before = said(common) if common else MemoryLogs()
        logs = self.known(new_logs, said(4, 2, before=before))
        other = said(5, before=before, word="denied")
        proof = logs.take(segment(other), FRIEND).fork
        assert proof is not None and differ(proof) == common and logs.proof(LOG) == proof
        head = logs.head(LOG)
        assert head is not None and (head.length, head.fork) == (common, common)
        assert logs.heads([LOG.channel]) == [head]
        assert logs.segment(LOG, common) is None
        assert logs.take(segment(said(9, before=other)), FRIEND) == Taken()
        assert not logs.forked(Fork(proof.other, proof.one), FRIEND)

        newcomer = new_logs()
        assert newcomer.forked(proof, FRIEND)
        assert newcomer.head(LOG) == Head(LOG, 0, merge.ZERO, common)
        if common:
            assert newcomer.take(segment(logs), FRIEND).new == common
        assert newcomer.head(LOG) == head

    def test_the_lowest_fork_counts_whichever_is_seen_first(self, new_logs: NewLogs) -> None:
        before, earlier = said(6), said(2)
        stories = [said(3, before=before), said(3, before=before, word="denied"),
                   said(7, before=earlier, word="invented")]  # fmt: skip
        late = bare(segment(stories[0], 6), segment(stories[1], 6))
        early = bare(segment(stories[0]), segment(stories[2]))
        for proofs in ((late, early), (early, late)):
            logs = self.known(new_logs, stories[0])
            for proof in proofs:
                logs.forked(proof, FRIEND)
            head = logs.head(LOG)
            assert head is not None and head.fork == head.length == 2
            assert logs.proof(LOG) == early

    def test_a_fork_within_one_stretch_leaves_what_is_before_it_provable(
        self, new_logs: NewLogs
    ) -> None:
        """The only signature is behind the fork, and on each side another."""
        entries = drafted(LOG, 0, merge.ZERO, [b"1", b"2", b"3", b"4"])
        other = drafted(LOG, 2, entries[1][1], [b"5", b"6"])
        stories = [
            Segment(LOG, [entry for entry, _ in those], signed(ANN, those[-1][1]))
            for those in (entries, [*entries[:2], *other])
        ]
        first, second, newcomer = new_logs(), new_logs(), new_logs()
        first.take(stories[0], FRIEND)
        second.take(stories[1], FRIEND)
        proof = first.take(stories[1], FRIEND).fork
        assert proof is not None and second.forked(proof, FRIEND)
        assert newcomer.forked(proof, FRIEND)
        assert newcomer.take(segment(second), FRIEND).new == 2
        assert first.head(LOG) == second.head(LOG) == newcomer.head(LOG)

    def test_a_proof_says_no_more_than_that_two_stories_differ(self, new_logs: NewLogs) -> None:
        logs = new_logs()
        assert logs.forked(Fork(segment(said(4)), segment(said(2, word="denied"))), FRIEND)
        proof = logs.proof(LOG)
        assert proof is not None
        assert {each.payload for each in [*proof.one.entries, *proof.other.entries]} == {None}

    def test_where_stories_differ_earlier_the_question_halves(self, new_logs: NewLogs) -> None:
        logs = self.known(new_logs, said(*[1] * 100))
        other = said(*[1] * 100, before=said(30), word="denied")
        first, asked = 100, []
        while (taken := logs.take(segment(other, first), FRIEND)).missing is not None:
            first = taken.missing
            asked.append(first)
        assert taken.fork is not None and differ(taken.fork) == 30
        assert asked == [50, 25]
