"""Who is told what, and who is asked."""

from __future__ import annotations

import random
from collections import Counter, deque
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement

from reasonbank.peers import merge, wire
from reasonbank.peers.gossip import MOST_ASKED, PATIENCE, Frames, Node, in_parts, lacking
from reasonbank.peers.identity import Identity
from reasonbank.peers.merge import ZERO, bare, differ
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
    Status,
    Want,
)
from reasonbank.testing.memory_logs import MemoryLogs

BLUE, RED = "team:acme/blue", "team:acme/red"
replaced = msgspec.structs.replace


class Bank:
    def __init__(self, name: str) -> None:
        self.identity = Identity.of(name)
        self.key = self.identity.key
        self.logs = MemoryLogs()
        self.node = Node(self.logs, self.key, random.Random(name))

    def log(self, channel: str = BLUE) -> Log:
        return Log(self.key, "first", channel)

    def say(self, *texts: bytes, channel: str = BLUE) -> Frames:
        first = self.logs.append(self.identity, self.log(channel), *texts or (b"{}",))
        return self.node.grown(self.log(channel), first)

    def segment(self, first: int = 0) -> Segment:
        found = self.logs.segment(self.log(), first)
        assert found is not None
        return found


class Room:
    """Banks that hear each other at once, each frame as bytes."""

    def __init__(self, names: str, channels: tuple[str, ...] = (BLUE,)) -> None:
        self.banks = [Bank(name) for name in names]
        self.by_key = {bank.key: bank for bank in self.banks}
        self.sent: Counter[type[Frame]] = Counter()
        for one, other in combinations(self.banks, 2):
            self.meet(one, other, channels)

    def meet(self, one: Bank, other: Bank, channels: tuple[str, ...] = (BLUE,)) -> None:
        frames = one.node.connected(other.key, channels)
        back = other.node.connected(one.key, channels)
        self.carry(one, frames)
        self.carry(other, back)

    def carry(self, source: Bank, frames: Frames) -> None:
        queue = deque((source, key, frame) for key, frame in frames)
        while queue:
            source, key, frame = queue.popleft()
            self.sent[type(frame)] += 1
            if bank := self.by_key.get(key):
                arrived = wire.decode(wire.encode(frame))
                answers = bank.node.received(source.key, arrived)
                queue.extend((bank, *each) for each in answers)

    def heads(self, channel: str = BLUE) -> list[dict[Log, Head]]:
        return [{head.log: head for head in bank.logs.heads((channel,))} for bank in self.banks]


def forked(ann: Bank, after: int = 0) -> Segment:
    """Another story of hers."""
    other = ann.logs.copy()
    for _ in range(2):
        other.append(ann.identity, ann.log(), b'"denied"')
    found = other.segment(ann.log(), after)
    assert found is not None
    return found


# What is told


@requirement("BUS-4")
def test_what_one_bank_says_reaches_all_that_are_connected() -> None:
    room = Room("abcdefghij")
    for bank in room.banks:
        room.carry(bank, bank.say())
    heads = room.heads()
    assert len(heads[0]) == 10 and all(each == heads[0] for each in heads)


@requirement("BUS-4")
def test_it_reaches_those_who_are_connected_through_others_only() -> None:
    room = Room("a")
    for name in "bcdef":
        room.banks.append(Bank(name))
        room.by_key[room.banks[-1].key] = room.banks[-1]
        room.meet(*room.banks[-2:])
    room.carry(room.banks[0], room.banks[0].say())
    assert all(each == room.heads()[0] for each in room.heads())


def test_news_goes_whole_to_a_few_and_by_name_to_the_rest() -> None:
    bank = Room("abcdefghij").banks[0]
    frames = bank.say()
    kinds = Counter(type(frame) for _, frame in frames)
    assert kinds == {Segment: 3, Announce: 6}
    assert len({key for key, _ in frames}) == 9


def test_who_has_it_already_is_not_told() -> None:
    room = Room("abcd")
    ann, bob, cid, dan = room.banks
    ann.say()
    heard = Announce(ann.logs.heads((BLUE,))[0])
    bob.node.received(cid.key, heard)
    told = bob.node.received(ann.key, ann.segment())
    assert [key for key, frame in told] == [dan.key]


def test_what_does_not_fit_into_a_segment_is_named_too() -> None:
    room = Room("ab")
    ann = room.banks[0]
    for _ in range(3):
        ann.logs.append(ann.identity, ann.log(), bytes(300_000))
    frames = ann.node.grown(ann.log(), 0)
    assert [type(frame) for _, frame in frames] == [Segment, Announce]
    room.carry(ann, frames)
    assert room.heads()[0] == room.heads()[1]


@requirement("BUS-4")
def test_a_newcomer_gets_segment_after_segment_until_it_is_at_the_head() -> None:
    room = Room("ab")
    ann = room.banks[0]
    for _ in range(30):
        ann.say(*[b"{}"] * 50)
    newcomer = Bank("n")
    room.by_key[newcomer.key] = newcomer
    room.sent.clear()
    room.meet(ann, newcomer)
    assert newcomer.logs.head(ann.log()) == ann.logs.head(ann.log())
    assert room.sent[Segment] == 3 == room.sent[Want]


# What is asked


def test_what_is_on_its_way_is_not_asked_twice() -> None:
    ann, bob, cid, dan = (Bank(name) for name in "abcd")
    for peer in (bob, cid, dan):
        ann.node.connected(peer.key, (BLUE,))
    bob.say()
    news = Announce(bob.logs.heads((BLUE,))[0])
    asked = [ann.node.received(peer.key, news) for peer in (bob, cid, dan, bob)]
    assert asked == [[(bob.key, Want(bob.log(), 0))], [], [], []]


def test_who_leaves_or_does_not_answer_is_replaced_by_another_who_has_it() -> None:
    ann, bob, cid, dan = (Bank(name) for name in "abcd")
    for peer in (bob, cid, dan):
        ann.node.connected(peer.key, (BLUE,))
    dan.say()
    news, want = Announce(dan.logs.heads((BLUE,))[0]), Want(dan.log(), 0)
    for peer in (bob, cid, dan):
        ann.node.received(peer.key, news)
    assert ann.node.disconnected(bob.key) == [(cid.key, want)]
    ticks = [frame for _ in range(PATIENCE) for frame in ann.node.tick()]
    assert (dan.key, want) in ticks and (cid.key, want) not in ticks
    late = ann.node.received(cid.key, dan.segment())
    assert ann.logs.head(dan.log()) == news.head and (dan.key, want) not in late


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    ann, bob = Bank("a"), Bank("b")
    ann.node.connected(bob.key, (BLUE,))
    bob.say()
    news, want = Announce(bob.logs.heads((BLUE,))[0]), (bob.key, Want(bob.log(), 0))
    assert ann.node.received(bob.key, news) == [want]
    assert [want in ann.node.tick() for _ in range(2 * PATIENCE)].count(True) == 2
    ann.node.connected(bob.key, (BLUE,))
    assert ann.node.received(bob.key, news) == [want]


def test_one_who_does_not_answer_does_not_stand_in_the_way_of_one_who_does() -> None:
    ann, eve, bob = Bank("a"), Bank("e"), Bank("b")
    for peer in (eve, bob):
        ann.node.connected(peer.key, (BLUE,))
    bob.say()
    head = bob.logs.heads((BLUE,))[0]
    ann.node.received(eve.key, Announce(replaced(head, length=10**18)))
    for _ in range(PATIENCE):
        ann.node.tick()
    assert ann.node.received(bob.key, Announce(head)) == [(bob.key, Want(bob.log(), 0))]


def test_who_is_asked_for_what_it_does_not_have_says_how_far_it_is() -> None:
    ann, bob = Bank("a"), Bank("b")
    for one, other in ((ann, bob), (bob, ann)):
        one.node.connected(other.key, (BLUE,))
    bob.say()
    head = bob.logs.heads((BLUE,))[0]
    assert bob.node.received(ann.key, Want(bob.log(), 7)) == [(ann.key, Announce(head))]
    nothing = Announce(Head(ann.log(), 0, ZERO))
    assert bob.node.received(ann.key, Want(ann.log(), 0)) == [(ann.key, nothing)]
    # It has lost what it announced; when it has more again, it is asked at once.
    ann.node.received(bob.key, Announce(replaced(head, length=5)))
    assert ann.node.received(bob.key, Announce(replaced(head, length=0, link=ZERO))) == []
    assert ann.node.received(bob.key, Announce(head)) == [(bob.key, Want(bob.log(), 0))]


HEADS = st.builds(
    Head,
    st.just(Log(bytes(32), "e", BLUE)),
    st.integers(0, 9),
    st.sampled_from([b"x" * 32, b"y" * 32]),
    st.none() | st.integers(0, 9),
)


@given(st.none() | HEADS, HEADS)
def test_there_is_something_to_ask_unless_one_knows_as_much(
    mine: Head | None, theirs: Head
) -> None:
    first = lacking(mine, theirs)
    if mine == theirs:
        assert first is None
    if first is not None:
        assert 0 <= first <= max(theirs.length, theirs.fork or 0)
    if theirs.fork is not None and (not mine or mine.fork is None or theirs.fork < mine.fork):
        assert first == theirs.fork
    if mine and mine.fork is None and theirs.length > mine.length:
        assert first is not None
    if mine and theirs.fork is None and theirs.length < mine.length:
        assert first is None


def test_a_bank_that_takes_nothing_does_not_ask_for_ever() -> None:
    class Full(MemoryLogs):
        def take(self, segment: Segment, via: bytes) -> merge.Taken:
            return merge.Taken()

    room = Room("ab")
    ann, bob = room.banks
    ann.node = Node(Full(), ann.key, random.Random(1))
    bob.say()
    room.meet(ann, bob)
    assert room.sent[Want] == 1


def test_a_fork_that_is_claimed_and_not_proven_is_not_asked_for_for_ever() -> None:
    ann, bob, eve = (Bank(name) for name in "abe")
    for peer in (bob, eve):
        ann.node.connected(peer.key, (BLUE,))
    bob.say()
    ann.logs.take(bob.segment(), bob.key)
    claim = Announce(Head(bob.log(), 1, bytes(32), 1))
    assert ann.node.received(eve.key, claim) == [(eve.key, Want(bob.log(), 1))]
    assert ann.node.received(eve.key, claim) == []
    assert ann.logs.head(bob.log()) == bob.logs.head(bob.log())


def test_what_was_refused_is_not_asked_for_again_of_the_same_peer() -> None:
    ann, bob, eve = (Bank(name) for name in "abe")
    for peer in (bob, eve):
        ann.node.connected(peer.key, (BLUE,))
    bob.say()
    news, want = Announce(bob.logs.heads((BLUE,))[0]), Want(bob.log(), 0)
    assert ann.node.received(eve.key, news) == [(eve.key, want)]
    assert ann.node.received(eve.key, replaced(bob.segment(), signature=bytes(64))) == []
    assert ann.node.received(eve.key, news) == []
    assert ann.node.received(bob.key, news) == [(bob.key, want)]


# Two stories


@requirement("BUS-4")
@pytest.mark.parametrize("common", [0, 1, 5, 40])
@pytest.mark.parametrize(("ours", "theirs"), [(3, 3), (1, 4), (6, 2)])
def test_two_stories_are_found_by_their_heads_and_told_to_all(
    common: int, ours: int, theirs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "MOST_ENTRIES", 4)
    eve, room = Bank("e"), Room("abcd")
    ann, bob, cid, _ = room.banks
    for _ in range(common):
        eve.say()
    stories = [eve.logs.copy(), eve.logs.copy()]
    for count, story, bank in zip((ours, theirs), stories, (ann, bob), strict=True):
        for _ in range(count):
            story.append(eve.identity, eve.log(), b'"to %d"' % count + bank.key.hex().encode())
        head = story.head(eve.log())
        assert head is not None
        while (bank.logs.head(eve.log()) or Head(eve.log(), 0, ZERO)).length < head.length:
            mine = bank.logs.head(eve.log())
            part = story.segment(eve.log(), mine.length if mine else 0)
            assert part is not None
            bank.logs.take(part, eve.key)
    room.meet(ann, bob)
    for _ in range(3):
        for bank in room.banks:
            room.carry(bank, bank.node.tick())
    heads = room.heads()
    assert all(each == heads[0] for each in heads)
    assert (heads[0][eve.log()].length, heads[0][eve.log()].fork) == (common, common)
    proof = cid.logs.proof(eve.log())
    assert proof is not None and differ(proof) == common


@requirement("BUS-4")
@pytest.mark.parametrize("slowest", [1, 3, 5, 9])
@pytest.mark.parametrize("seed", range(5))
def test_where_two_stories_part_is_found_however_late_the_answers_come(
    slowest: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find it takes several questions, and each of them may be asked anew meanwhile."""
    monkeypatch.setattr(merge, "MOST_ENTRIES", 2)
    rng = random.Random(seed)
    eve = Bank("e")
    for _ in range(39):
        eve.say()
    other = eve.logs.copy()
    ann, bob = Bank("a"), Bank("b")
    for story, more, bank in ((eve.logs, 1, ann), (other, 7, bob)):
        for number in range(more):
            story.append(eve.identity, eve.log(), b'{"to":%d}' % (10 * more + number))
        while part := story.segment(eve.log(), _length(bank, eve.log())):
            bank.logs.take(part, eve.key)
    under_way = [(0, ann, each) for each in ann.node.connected(bob.key, (BLUE,))]
    under_way += [(0, bob, each) for each in bob.node.connected(ann.key, (BLUE,))]
    for now in range(60 * slowest):
        due = [each for each in under_way if each[0] <= now]
        under_way = [each for each in under_way if each[0] > now]
        said = [(source, frame) for source in (ann, bob) for frame in source.node.tick()]
        for _, source, (_, frame) in due:
            target = bob if source is ann else ann
            said += [(target, each) for each in target.node.received(source.key, frame)]
        under_way += [(now + rng.randint(1, slowest), source, frame) for source, frame in said]
    for bank in (ann, bob):
        head = bank.logs.head(eve.log())
        assert head is not None and (head.length, head.fork) == (39, 39)


def _length(bank: Bank, log: Log) -> int:
    head = bank.logs.head(log)
    return head.length if head else 0


def test_whoever_finds_or_hears_of_a_fork_warns_all_others_at_once_and_only_once() -> None:
    room = Room("abcd")
    ann, bob, cid, dan = room.banks
    ann.say()
    for bank in (bob, cid):
        bank.logs.take(ann.segment(), ann.key)
    other = forked(ann)
    ann.say(b'"once"')
    bob.logs.take(ann.segment(), ann.key)
    warned = bob.node.received(ann.key, other)
    assert [(key, type(frame)) for key, frame in warned][:3] == [
        (bank.key, Fork) for bank in (ann, cid, dan)
    ]
    proof = warned[0][1]
    further = [key for key, frame in cid.node.received(bob.key, proof) if frame == proof]
    assert further == [ann.key, dan.key]
    assert cid.node.received(dan.key, proof) == []


def test_who_asks_for_what_is_behind_a_fork_gets_the_proof() -> None:
    ann, bob, cid = (Bank(name) for name in "abc")
    bob.node.connected(cid.key, (BLUE,))
    ann.say()
    other = forked(ann)
    ann.say(b'"once"')
    bob.logs.take(ann.segment(), ann.key)
    bob.logs.take(other, ann.key)
    proof = bob.logs.proof(ann.log())
    assert bob.node.received(cid.key, Want(ann.log(), 1)) == [(cid.key, proof)]
    (answer,) = bob.node.received(cid.key, Want(ann.log(), 0))
    assert isinstance(answer[1], Segment)


def test_the_rest_of_a_liars_logs_goes_on() -> None:
    room = Room("abc", (BLUE, RED))
    ann, bob, _ = room.banks
    ann.say()
    other = forked(ann)
    room.carry(ann, ann.say(b'"once"'))
    room.carry(ann, [(bob.key, other)])
    room.carry(ann, ann.say(channel=RED))
    room.carry(bob, bob.say())
    for channel in (BLUE, RED):
        assert all(each == room.heads(channel)[0] for each in room.heads(channel))
    assert room.heads(RED)[2][ann.log(RED)].length == 1


# What is not listened to


def test_what_is_forged_is_refused_and_its_sender_noted_and_the_rest_goes_on() -> None:
    ann, bob, eve = (Bank(name) for name in "abe")
    for peer in (bob, eve):
        ann.node.connected(peer.key, (BLUE,))
    bob.say()
    forged = replaced(bob.segment(), signature=bytes(64))
    assert ann.node.received(eve.key, forged) == []
    assert ann.node.received(eve.key, Fork(bob.segment(), forged)) == []
    assert ann.node.refused == {eve.key: 2} and ann.logs.heads((BLUE,)) == []
    told = ann.node.received(bob.key, bob.segment())
    assert ann.logs.heads((BLUE,)) == bob.logs.heads((BLUE,)) and told


def test_nothing_is_told_taken_or_answered_in_a_channel_that_is_not_shared() -> None:
    ann, bob = Bank("a"), Bank("b")
    ann.say(channel=RED)
    assert ann.node.connected(bob.key, (BLUE,)) == []
    assert ann.say(channel=RED) == []
    assert all(frame == Have([]) for _, frame in ann.node.tick())
    bob.say(channel=RED)
    segment = bob.logs.segment(bob.log(RED), 0)
    assert segment is not None
    other = replaced(segment, signature=bytes(64))
    head = bob.logs.heads((RED,))[0]
    frames = (
        segment, Announce(head), Have([head]), Want(ann.log(RED), 0), Fork(segment, other),
    )  # fmt: skip
    for frame in frames:
        assert ann.node.received(bob.key, frame) == []
    assert ann.node.refused[bob.key] == len(frames)
    assert bob.log(RED) not in ann.logs.stories


def test_strangers_and_other_lanes_get_no_answer() -> None:
    ann, bob = Bank("a"), Bank("b")
    bob.say()
    assert ann.node.received(bob.key, bob.segment()) == []
    ann.node.connected(bob.key, (BLUE,))
    assert ann.node.received(bob.key, Status("bob", "1", 0, 0.0, 0)) == []
    ann.node.disconnected(bob.key)
    assert ann.node.received(bob.key, bob.segment()) == []
    assert ann.logs.heads((BLUE,)) == []


# Limits


def test_whoever_announces_the_world_costs_a_few_questions() -> None:
    ann, eve = Bank("a"), Bank("e")
    ann.node.connected(eve.key, (BLUE,))
    asked = []
    for part in range(3):
        heads = [
            Head(Log(eve.key, f"{part} {number}", BLUE), 10**18, bytes(32))
            for number in range(MOST_LOGS)
        ]
        asked += ann.node.received(eve.key, Have(heads))
    assert len(asked) == MOST_ASKED
    (peer,) = ann.node._peers.values()
    assert len(peer.heads) <= MOST_LOGS and len(peer.ahead) <= MOST_LOGS
    again = [frame for _ in range(PATIENCE) for _, frame in ann.node.tick()]
    assert len(again) <= MOST_ASKED and len(ann.node._asked) <= MOST_ASKED
    assert ann.logs.heads((BLUE,)) == []


def test_many_logs_are_fetched_a_few_at_a_time_until_all_are_here() -> None:
    room = Room("ab")
    ann, bob = room.banks
    for number in range(5 * MOST_ASKED):
        bob.logs.append(bob.identity, Log(bob.key, str(number), BLUE), b"{}")
    (first,) = bob.node.tick()
    asked = ann.node.received(bob.key, first[1])
    assert len(asked) == MOST_ASKED
    room.carry(ann, asked)
    assert room.heads()[0] == room.heads()[1]


def test_logs_that_are_not_answered_for_give_way_to_others() -> None:
    ann, bob = Bank("a"), Bank("b")
    ann.node.connected(bob.key, (BLUE,))
    heads = [Head(Log(bob.key, str(n), BLUE), 1, bytes(32)) for n in range(3 * MOST_ASKED)]
    asked = [ann.node.received(bob.key, Have(heads))]
    asked += [[each for _ in range(PATIENCE) for each in ann.node.tick()] for _ in range(3)]
    logs = [[frame.log for _, frame in part if isinstance(frame, Want)] for part in asked]
    assert [log for part in logs[:3] for log in part] == [head.log for head in heads]
    assert logs[3] == logs[0]


def test_a_list_that_is_too_long_for_a_frame_is_told_in_parts() -> None:
    short = [Head(Log(bytes(32), str(n), "c"), 10**18, bytes(32), 10**18) for n in range(25_000)]
    long = [replaced(each, log=replaced(each.log, channel="\U0001f600" * 256)) for each in short]
    for heads in (short, long, []):
        parts = list(in_parts(heads))
        assert [head for part in parts for head in part.heads] == heads
        assert all(len(part.heads) <= MOST_LOGS for part in parts)
        assert all(len(wire.encode(part)) <= LONGEST_FRAME for part in parts)


POOL = Bank("pool")
for _ in range(3):
    POOL.say(b"1", b"2")
OTHER = forked(POOL)
FRAMES: list[Frame] = [
    POOL.segment(), POOL.segment(2), POOL.segment(4), OTHER,
    replaced(POOL.segment(1), signature=bytes(64)),
    Fork(POOL.segment(), POOL.segment()), Fork(OTHER, replaced(OTHER, signature=bytes(64))),
    *(Want(POOL.log(), first) for first in (0, 5, 10**18)),
    *(Announce(Head(POOL.log(), length, ZERO, fork)) for length in (0, 6, 10**18)
      for fork in (None, 0, 4)),
    Have([Head(POOL.log("elsewhere"), 3, ZERO)]), Have([]),
]  # fmt: skip
POOL.say(b"3")
FRAMES += [POOL.segment(6), bare(POOL.segment(), OTHER)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(range(len(FRAMES) + 3)))))
def test_no_order_of_frames_confuses_a_bank(steps: list[tuple[int, int]]) -> None:
    ann, peers = Bank("a"), [Bank(name) for name in "bcd"]
    sent = 0
    for who, what in steps:
        if what < len(FRAMES):
            sent += len(ann.node.received(peers[who].key, FRAMES[what]))
        elif what == len(FRAMES):
            sent += len(ann.node.connected(peers[who].key, (BLUE,)))
        elif what == len(FRAMES) + 1:
            sent += len(ann.node.disconnected(peers[who].key))
        else:
            sent += len(ann.node.tick())
        asked = Counter(each.peer.key for each in ann.node._asked.values())
        assert asked == {p.key: p.asked for p in ann.node._peers.values() if p.asked}
    assert sent <= 6 * len(steps)
    story = ann.logs.stories.get(POOL.log())
    if story and story.entries:
        end = len(story.entries) - 1
        assert merge.verified(Segment(POOL.log(), story.entries, story.signatures[end]))
