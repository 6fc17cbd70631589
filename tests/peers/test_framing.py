"""Frames on a stream, however it cuts them, and never more than there is room for."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from reasonbank.peers.framing import PER_FRAME, WINDOW, Incoming, Outgoing, Violation
from reasonbank.peers.wire import LONGEST_FRAME, BadFrame


def written(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=20), st.data())
def test_frames_come_out_as_they_went_in(frames, data):
    stream = b"".join(map(written, frames))
    incoming = Incoming()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        incoming.feed(stream[:cut])
        stream = stream[cut:]
    assert [incoming.take() for _ in frames] == frames
    assert incoming.next is None and not incoming.midway
    assert incoming.held == 0


@given(
    st.lists(st.integers(1, 3 * WINDOW), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_a_sender_that_keeps_to_its_credit_never_fills_the_reader_and_never_gets_stuck(sizes, rng):
    """``rng`` says who has the next turn; each may do as much as it can."""
    sizes = [min(size, LONGEST_FRAME) for size in sizes]
    incoming, outgoing = Incoming(), Outgoing()
    queue, rest, got = list(sizes), 0, []
    while len(got) < len(sizes):
        progress = False
        if queue and not rest and (header := outgoing.header(queue[0])) is not None:
            incoming.feed(header)
            rest, progress = queue.pop(0), True
        if rest and (room := outgoing.room(rest)):
            incoming.feed(bytes(room))
            rest, progress = rest - room, True
        assert incoming.held <= WINDOW
        if not progress or rng.random() < 0.5:
            if incoming.next is not None:
                got.append(len(incoming.take()))
                progress = True
            else:
                before = incoming.held
                incoming.wanted()
                progress = progress or incoming.held < before
            if credit := incoming.credit():
                outgoing.credited(credit)
                progress = True
        assert progress
    assert got == sizes


def test_many_tiny_frames_do_not_fit_into_a_window():
    incoming = Incoming()
    fits = WINDOW // (PER_FRAME + 1)
    incoming.feed(written(b"x") * fits)
    with pytest.raises(Violation, match="more was sent than there was room for"):
        incoming.feed(written(b"x"))


@pytest.mark.parametrize("length", [0, LONGEST_FRAME + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_anything_is_held(length):
    incoming = Incoming()
    with pytest.raises(Violation, match="was announced"):
        incoming.feed(length.to_bytes(4, "big") + b"x")
    assert incoming.held == 0
    with pytest.raises(BadFrame, match="cannot be sent"):
        Outgoing().header(length)


def test_no_more_credit_than_was_used():
    outgoing = Outgoing()
    outgoing.room(10)
    outgoing.credited(10)
    with pytest.raises(Violation, match="never sent"):
        outgoing.credited(1)


def test_an_end_in_the_middle_of_a_frame_can_be_told():
    incoming = Incoming()
    for part in (b"\0\0", b"\0\2", b"x"):
        incoming.feed(part)
        assert incoming.midway
    incoming.feed(b"y")
    assert not incoming.midway
