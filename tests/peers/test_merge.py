"""What a bank makes of what comes: only what its owner signed, and of two stories none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.requirement import requirement

from reasonbank.peers import merge, wire
from reasonbank.peers.identity import Identity, verify
from reasonbank.peers.merge import Forged, bare, differ, packed, verified
from reasonbank.peers.wire import MOST_ENTRIES, Fork, Segment
from reasonbank.testing.logs_contract import (
    ANN,
    FRIEND,
    LOG,
    LogsContract,
    NewLogs,
    said,
    segment,
)
from reasonbank.testing.memory_logs import MemoryLogs, drafted

EVE = Identity.of("eve")
replaced = msgspec.structs.replace


def changed(segment: Segment, at: int, /, **fields: Any) -> Segment:
    entries = list(segment.entries)
    entries[at] = replaced(entries[at], **fields)
    return replaced(segment, entries=entries)


# Identity


def test_the_same_secret_gives_the_same_identity_and_another_another() -> None:
    assert Identity.of("ann") == ANN != EVE
    assert len(ANN.key) == 32


def test_only_the_owner_of_a_key_can_sign_for_it() -> None:
    signature = ANN.sign(b"yes")
    assert verify(ANN.key, b"yes", signature)
    assert not verify(ANN.key, b"no", signature)
    assert not verify(EVE.key, b"yes", signature)
    assert not verify(bytes(32), b"yes", signature)
    assert not verify(ANN.key, b"yes", b"short")
    assert not verify(b"short", b"yes", signature)


def test_an_identity_does_not_show_its_secret() -> None:
    assert "sign" not in repr(ANN)


# Segments


def test_what_was_signed_is_verified_also_after_a_journey() -> None:
    one = segment(said(3, 2))
    links = verified(one)
    assert links == said(3, 2).stories[LOG].links
    arrived = wire.decode(wire.encode(one))
    assert isinstance(arrived, Segment) and verified(arrived) == links


CHANGES = [
    ("id", "another"), ("type", "memory.forgotten"), ("subject", "another"), ("at", 7),
    ("workspace", "another"), ("counter", 7), ("author", "eve"), ("principal", "peer"),
    ("surface", "web"), ("seq", 7), ("prev", bytes(32)), ("digest", bytes(32)),
    ("payload", b'"forged"'), ("payload", None), ("salt", None), ("salt", b"short"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), CHANGES, ids=[each[0] for each in CHANGES])
@pytest.mark.parametrize("at", [1, 2])
def test_whatever_is_changed_in_an_entry_is_seen(at: int, field: str, value: object) -> None:
    with pytest.raises(Forged):
        verified(changed(segment(said(3)), at, **{field: value}))


def test_bytes_cannot_move_from_the_salt_into_the_payload() -> None:
    one = segment(said(1))
    (entry,) = one.entries
    assert entry.salt is not None and entry.payload is not None
    salt, payload = entry.salt[:-1], entry.salt[-1:] + b"\0" + entry.payload
    with pytest.raises(Forged):
        verified(changed(one, 0, salt=salt, payload=payload))


def test_an_entry_of_another_log_is_not_taken_for_one_of_this() -> None:
    one = segment(said(2))
    for change in ({"key": EVE.key}, {"epoch": "second"}, {"channel": "org:acme"}):
        with pytest.raises(Forged):
            verified(replaced(one, log=replaced(LOG, **change)))


def test_nobody_else_signs_for_the_owner() -> None:
    one = segment(said(2))
    with pytest.raises(Forged):
        verified(replaced(one, signature=merge.signed(EVE, verified(one)[-1])))


def test_a_first_entry_has_none_before_it() -> None:
    entries = drafted(LOG, 0, b"\1" * 32, [b"{}"])
    with pytest.raises(Forged):
        verified(Segment(LOG, [entries[0][0]], merge.signed(ANN, entries[0][1])))


def test_a_segment_that_could_not_be_part_of_a_proof_is_refused() -> None:
    """Two of them must fit into one frame, or a fork could not be told."""
    logs = MemoryLogs()
    logs.append(ANN, LOG, bytes(merge.LONGEST_PAYLOAD))
    longest = segment(logs)
    assert len(wire.encode(Fork(longest, longest))) <= wire.LONGEST_FRAME
    entries = drafted(LOG, 0, merge.ZERO, [bytes(merge.LONGEST_SEGMENT)])
    with pytest.raises(Forged, match="too long"):
        verified(Segment(LOG, [entries[0][0]], merge.signed(ANN, entries[0][1])))


def test_what_was_forgotten_still_chains_and_its_payload_cannot_be_made_up() -> None:
    logs = said(3)
    links = verified(segment(logs))
    logs.redact(LOG, 1)
    assert verified(segment(logs)) == links
    with pytest.raises(Forged):
        verified(changed(segment(logs), 1, payload=b'"made up"', salt=bytes(32)))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(0, 40))
def test_a_segment_is_as_long_as_it_can_be_and_ends_signed(counts: list[int], first: int) -> None:
    logs = said(*counts)
    found = logs.segment(LOG, first)
    if first >= sum(counts):
        assert found is None
    else:
        assert found is not None and found.entries[-1].seq == sum(counts) - 1
        assert verified(found)


def test_a_segment_holds_neither_more_entries_nor_more_bytes_than_allowed() -> None:
    assert len(segment(said(*[1] * (MOST_ENTRIES + 5))).entries) == MOST_ENTRIES
    big = MemoryLogs()
    for _ in range(5):
        big.append(ANN, LOG, bytes(200_000))
    assert len(segment(big).entries) == 2
    assert packed(LOG, [(each, None) for each in segment(big).entries]) is None


# Proofs


@given(st.integers(0, 6), st.integers(1, 4), st.integers(1, 4), st.data())
@requirement("BUS-4")
def test_a_proof_says_where_two_stories_part(
    common: int, ours: int, theirs: int, data: st.DataObject
) -> None:
    before = said(common) if common else MemoryLogs()
    one = segment(said(ours, before=before), data.draw(st.integers(0, common)))
    other = segment(said(theirs, before=before, word="denied"), data.draw(st.integers(0, common)))
    proof = bare(one, other)
    assert differ(proof) == common
    assert differ(Fork(one, other)) == common
    entries = [*proof.one.entries, *proof.other.entries]
    assert {entry.payload for entry in entries} == {None}
    assert proof.one.entries[0].seq == proof.other.entries[0].seq == common
    assert bare(proof.one, proof.other) == proof


def test_what_proves_nothing_is_refused() -> None:
    one, other = segment(said(3)), segment(said(3, word="denied"))
    later = segment(said(3, 3), 3), segment(said(3, 3, word="denied"), 3)
    forged = changed(other, 2, author="eve")
    elsewhere = MemoryLogs()
    elsewhere.append(EVE, replaced(LOG, key=EVE.key), b"{}")
    (log,) = elsewhere.stories
    third = elsewhere.segment(log, 0)
    assert third is not None
    for proof in (
        Fork(one, one), Fork(one, segment(said(3, 2))), Fork(one, forged), Fork(forged, one),
        Fork(one, third), Fork(*later), Fork(one, later[1]),
    ):  # fmt: skip
        with pytest.raises(Forged):
            differ(proof)


# What is kept


class TestMemoryLogs(LogsContract):
    @pytest.fixture
    def new_logs(self) -> NewLogs:
        return MemoryLogs


def test_one_owner_cannot_fill_a_bank_with_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasonbank.testing.memory_logs.MOST_LOGS_OF_ONE", 5)
    logs = MemoryLogs()
    taken = []
    for number in range(8):
        source = MemoryLogs()
        log = replaced(LOG, epoch=str(number))
        source.append(ANN, log, b"{}")
        found = source.segment(log, 0)
        assert found is not None
        taken.append(logs.take(found, FRIEND))
    assert [each.new for each in taken] == [1] * 5 + [0] * 3
    assert taken[-1].refused and len(logs.heads([LOG.channel])) == 5
