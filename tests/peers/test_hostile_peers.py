"""A bank that was let in and turns bad: each thing it tries is refused or contained over the real
bus, and the others go on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec import structs
from tests.peers.banks import TEAM, Liar, a_lesson
from tests.peers.convergence import LIMITS, PACE, Banker, Member
from tests.requirement import requirement

from reasonbank.model import State
from reasonbank.peers import capability, membership, wire
from reasonbank.peers.bus import MOST_BYTES_WAITING, MOST_NOTED, MOST_STREAMS
from reasonbank.peers.hello import hello
from reasonbank.peers.merge import ZERO
from reasonbank.peers.quic import Quic
from reasonbank.peers.transport import ConnectionEnded
from reasonbank.peers.wire import Head, Lane, Log

FAR = 10**18


class Scene:
    """Anna listens; Bert is honest and connected; the liar has an invitation."""

    def __init__(self, anna, bert, liar, token):
        self.anna, self.bert, self.liar, self.token = anna, bert, liar, token
        self.count = 0

    @property
    def bank(self):
        return self.anna.member

    async def calls(self, token=None, sign=None):
        """A connection of the liar's, and what it was answered."""
        quic = Quic(self.liar.identity, limits=LIMITS)
        link = await quic.connect(self.anna.at, self.bank.key)
        control = await link.stream(Lane.CONTROL)
        said = hello(
            sign or self.liar.identity, link.binding, name="liar", at=0,
            token=self.token if token is None else token,
        )  # fmt: skip
        await control.send(wire.encode(said))
        data = await control.receive()
        return link, None if data is None else wire.decode(data)

    async def says(self, *frames, lane=Lane.MEMORY):
        link, answer = await self.calls()
        assert isinstance(answer, wire.Welcome)
        stream = await link.stream(lane)
        for frame in frames:
            await stream.send(frame if isinstance(frame, bytes) else wire.encode(frame))
        return link, stream

    async def goes_on(self):
        """What Bert learns still reaches Anna."""
        self.count += 1
        title = f"Honest {self.count}"
        self.bert.member.bank.record(a_lesson(title))
        async with asyncio.timeout(60):
            while title not in self.bank.titles():
                await asyncio.sleep(0.05)


@asynccontextmanager
async def a_scene(folder):
    anna, bert, liar = Banker(Member(folder, "anna")), Banker(Member(folder, "bert")), Liar()
    await anna.start()
    await bert.start()
    bank = anna.member.bank.context
    invited = membership.invite(bank, address=anna.at, channels=[TEAM])
    await bert.bus.join(membership.read(invited.invitation))
    token = membership.read(
        membership.invite(bank, address=anna.at, channels=[TEAM]).invitation
    ).token
    try:
        yield Scene(anna, bert, liar, token)
    finally:
        for banker in (anna, bert):
            await banker.stop()
            banker.member.close()


def play(folder, act):
    async def scene():
        async with asyncio.timeout(150), a_scene(folder) as found:
            await act(found)
            await found.goes_on()

    asyncio.run(scene())


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@requirement("BUS-2")
def test_a_forged_signature_is_not_taken(tmp_path):
    async def act(scene):
        liar = scene.liar
        segment = liar.says(liar.place(), liar.lesson()[1])
        other = Log(scene.bert.member.key, "epoch", TEAM)  # In Bert's name.
        forged = structs.replace(segment, signature=bytes(64))
        await scene.says(forged, structs.replace(segment, log=other))
        await until(lambda: scene.anna.bus.node.refused[liar.key] >= 2)
        assert scene.bank.titles() == set()

    play(tmp_path, act)


@requirement("BUS-3")
def test_a_widened_foreign_or_stolen_capability_opens_nothing(tmp_path):
    async def act(scene):
        elsewhere = capability.grant(
            scene.liar.identity, channels=[TEAM, "org:local"], spend=10**9, expires=FAR,
            operations=membership.OPERATIONS,
        )  # fmt: skip
        flipped = bytes([*scene.token[:-1], scene.token[-1] ^ 1])
        for token in (elsewhere, flipped, b"", b"x" * 16_000):
            _, answer = await scene.calls(token)
            assert answer is None or isinstance(answer, wire.Refused)
        less = capability.narrowed(scene.token, channels=[TEAM], operations=["read"])
        link, answer = await scene.calls(less)
        assert isinstance(answer, wire.Welcome)
        stream = await link.stream(Lane.MEMORY)
        await stream.send(wire.encode(scene.liar.says(scene.liar.lesson()[1])))
        await scene.goes_on()
        assert "A gift" not in scene.bank.titles()

    play(tmp_path, act)


def test_another_version_is_told_in_a_sentence(tmp_path, monkeypatch):
    async def act(scene):
        with monkeypatch.context() as newer:
            newer.setattr("reasonbank.peers.hello.VERSION", wire.VERSION + 1)
            _, answer = await scene.calls()
            assert isinstance(answer, wire.Refused) and "another version" in answer.reason
        with monkeypatch.context() as newer:
            newer.setattr("reasonbank.peers.quic.PROTOCOL", f"reasonbank/{wire.VERSION + 1}")
            with pytest.raises(ConnectionEnded, match="update the older"):
                await scene.calls()

    play(tmp_path, act)


@requirement("BUS-2")
def test_a_hello_of_somebody_else_is_refused(tmp_path):
    async def act(scene):
        quic = Quic(scene.liar.identity, limits=LIMITS)
        first = await quic.connect(scene.anna.at, scene.bank.key)
        second = await quic.connect(scene.anna.at, scene.bank.key)
        taken = hello(scene.liar.identity, first.binding, name="x", at=0, token=scene.token)
        claimed = structs.replace(
            hello(scene.liar.identity, second.binding, name="x", at=0, token=b""),
            key=scene.bert.member.key,
        )
        for said in (taken, claimed):
            link = await quic.connect(scene.anna.at, scene.bank.key)
            control = await link.stream(Lane.CONTROL)
            await control.send(wire.encode(said))
            try:
                data = await control.receive()
                assert data is None or isinstance(wire.decode(data), wire.Refused)
            except ConnectionEnded:
                pass

    play(tmp_path, act)


@requirement("BUS-4")
def test_two_histories_are_quarantined_by_all(tmp_path):
    async def act(scene):
        liar = scene.liar
        await scene.says(liar.says(liar.place(), liar.lesson(lesson={"title": "Before"})[1]))
        at = len(liar.links) - 1
        one = liar.says(liar.lesson(lesson={"title": "One story"})[1], first=at)
        other = liar.says(liar.lesson(lesson={"title": "Another"})[1], first=at)
        await scene.says(one)
        await until(lambda: "One story" in scene.bank.titles())
        await scene.says(other)
        for banker in (scene.anna, scene.bert):
            logs = banker.member.logs
            await until(lambda logs=logs: (head := logs.head(liar.log)) and head.fork == at)
            active = {m.title for m in banker.member.bank.memories() if m.state is State.ACTIVE}
            assert "Before" in active and not active & {"One story", "Another"}

    play(tmp_path, act)


def test_who_tells_of_thousands_of_logs_without_end_makes_nobody_wait(tmp_path):
    async def act(scene):
        link, _ = await scene.calls()
        logs = [Log(bytes([n % 256, n // 256]) * 16, "e", TEAM) for n in range(8_000)]
        told = wire.encode(wire.Have([Head(log, 5, ZERO) for log in logs]))

        async def pour(stream):
            while True:
                await stream.send(told)

        pouring = [asyncio.ensure_future(pour(await link.stream(Lane.MEMORY))) for _ in range(20)]
        await asyncio.sleep(1)
        async with asyncio.timeout(20):
            await scene.goes_on()
        for each in pouring:
            each.cancel()

    play(tmp_path, act)


@requirement("BUS-4")
def test_who_says_to_know_more_of_a_bank_than_it_does_does_not_silence_it(tmp_path):
    async def act(scene):
        scene.bank.bank.record(a_lesson("Said before"))
        await until(lambda: "Said before" in scene.bert.member.titles())
        [own] = [each for each in scene.anna.bus.logs.heads([TEAM])
                 if each.log.key == scene.bank.key]  # fmt: skip
        link, stream = await scene.says()
        told = wire.encode(wire.Have([Head(own.log, FAR, ZERO)]))

        async def again_and_again():
            with suppress(ConnectionEnded):
                while True:
                    await stream.send(told)
                    await asyncio.sleep(PACE.patience / 5)

        lying = asyncio.ensure_future(again_and_again())
        await asyncio.sleep(PACE.patience)
        scene.bank.bank.record(a_lesson("Of Anna"))
        await until(lambda: "Of Anna" in scene.bert.member.titles())
        assert link.ended is None
        lying.cancel()

    play(tmp_path, act)


@pytest.mark.parametrize("how", ["talks without end", "does not answer"])
def test_who_does_not_come_to_an_end_is_given_up(tmp_path, monkeypatch, how):
    monkeypatch.setattr("reasonbank.peers.bus.STALLED", 0.3)
    monkeypatch.setattr("reasonbank.peers.bus.LONGEST", 2.0)

    async def act(scene):
        link, stream = await scene.says(wire.Have([]))
        talk = scene.anna.bus.talks[scene.liar.key]

        async def talks():
            with suppress(ConnectionEnded):
                while True:
                    await stream.send(wire.encode(wire.Have([])))
                    await asyncio.sleep(0.05)

        talking = asyncio.ensure_future(
            talks() if how == "talks without end" else until_ended(link)
        )
        await scene.anna.bus.until_quiet(talk)
        assert talk.unfinished is not None and link.ended is None
        talking.cancel()

    play(tmp_path, act)


def test_who_comes_and_goes_leaves_nothing_behind(tmp_path):
    async def act(scene):
        before = len(scene.anna.bus._running)
        for _ in range(20):
            link, answer = await scene.calls()
            assert isinstance(answer, wire.Welcome)
            await link.close()
        await until(lambda: len(scene.anna.bus._running) <= before)

    play(tmp_path, act)


def lines_of(caplog, name=""):
    return [each for each in caplog.records if each.name in ("asyncio", "reasonbank.bus")
            and each.levelname != "DEBUG" and name in each.getMessage()]  # fmt: skip


def test_who_lies_again_and_again_is_said_a_few_lines_about(tmp_path, caplog):
    caplog.set_level("INFO")

    async def act(scene):
        for number in range(2 * MOST_NOTED):
            link, _ = await scene.says()
            await link.close(f"\x1b[31mI will be back\n{number}")
            await until(lambda: scene.liar.key not in scene.anna.bus.talks)
        assert scene.anna.bus.joined.qsize() == 1

    play(tmp_path, act)
    found = lines_of(caplog, "liar")
    assert len(found) == MOST_NOTED + 1
    assert len({each.getMessage() for each in found}) == len(found)
    assert all(each.getMessage().isprintable() for each in found)


@requirement("BUS-2")
def test_who_is_refused_and_does_not_go_leaves_no_line(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("reasonbank.peers.bus.HEARD", 0.1)

    async def act(scene):
        link, answer = await scene.calls(b"")
        assert isinstance(answer, wire.Refused)
        await link.until_ended()

    play(tmp_path, act)
    assert [each for each in lines_of(caplog) if each.levelname == "ERROR"] == []


def test_a_bank_that_is_there_and_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("reasonbank.peers.bus.STALLED", 0.3)

    async def act(scene):
        async def says_nothing(link):
            await link.until_ended()

        quic = Quic(scene.liar.identity, limits=LIMITS)
        door = await quic.listen("127.0.0.1:0", says_nothing)
        pasted = membership.Pasted(door.address, scene.liar.key, b"", [TEAM])
        with pytest.raises(ConnectionEnded, match="answer"):
            await scene.bert.bus.join(pasted)
        await door.close()

    play(tmp_path, act)


NO_TEXT = b"\x93\xa7refused\xa1\xff\xa1\xff"


@requirement("SEC-3")
def test_what_is_no_text_is_no_frame():
    with pytest.raises(wire.BadFrame):
        wire.decode(NO_TEXT)


@requirement("SEC-3", "BUS-4")
def test_whatever_one_answers_who_is_called_the_talk_with_others_goes_on(tmp_path):
    async def act(scene):
        answered = 0

        async def answers(link):
            nonlocal answered
            control = await link.accept()
            await control.receive()
            answered += 1
            await control.send(NO_TEXT)
            await link.until_ended()

        door = await Quic(scene.liar.identity, limits=LIMITS).listen("127.0.0.1:0", answers)
        pasted = membership.Pasted(door.address, scene.liar.key, b"", [TEAM])
        membership.joined(scene.bert.member.bank.context, pasted, "liar")
        await until(lambda: answered > 2)
        assert not scene.bert.running.done()
        await scene.goes_on()
        await door.close()

    play(tmp_path, act)


@requirement("BUS-2", "SEC-3")
def test_who_says_what_is_no_text_instead_of_hello_leaves_no_line(tmp_path, caplog):
    async def act(scene):
        link = await Quic(scene.liar.identity, limits=LIMITS).connect(scene.anna.at, scene.bank.key)
        control = await link.stream(Lane.CONTROL)
        await control.send(NO_TEXT)
        assert isinstance(wire.decode(await control.receive()), wire.Refused)
        await link.close()

    play(tmp_path, act)
    assert [each for each in lines_of(caplog) if each.levelname == "ERROR"] == []


async def until_ended(link):
    await link.until_ended()


def test_streams_that_are_opened_and_ended_without_end_fill_no_memory(tmp_path):
    async def act(scene):
        link, _ = await scene.calls()
        have = wire.encode(wire.Have([]))
        connection = scene.anna.bus.talks[scene.liar.key].connection
        with suppress(ConnectionEnded):
            for number in range(300):
                stream = await link.stream(Lane.MEMORY)
                await stream.send(have)
                await stream.close()
                if number % 10 == 0:  # As somebody who waits for an answer.
                    await asyncio.sleep(0.02)
                assert len(connection._streams) <= MOST_STREAMS + 20
        assert link.ended is None or "more streams" in link.ended
        link, _ = await scene.calls()
        for _ in range(3 * MOST_STREAMS):  # Nothing is ended, and nothing said.
            number = link._quic._open_stream()
            link.write(number, bytes([list(Lane).index(Lane.MEMORY)]))
        assert "more streams" in await link.until_ended()

    play(tmp_path, act)


def test_who_asks_for_everything_again_and_again_and_reads_nothing_fills_no_memory(tmp_path):
    async def act(scene):
        for number in range(30):
            scene.bank.bank.record(a_lesson(f"Lesson {number}", f"{number} " * 5_000))
        await scene.anna.bus.publish()
        [head] = [each for each in scene.anna.bus.logs.heads([TEAM])
                  if each.log.key == scene.bank.key]  # fmt: skip
        link, answer = await scene.calls()
        assert isinstance(answer, wire.Welcome)
        stream = await link.stream(Lane.MEMORY)
        for _ in range(900):
            await stream.send(wire.encode(wire.Want(head.log, 0)))
        talk = scene.anna.bus.talks[scene.liar.key]
        await until(lambda: talk.held >= MOST_BYTES_WAITING)
        assert talk.held < MOST_BYTES_WAITING + 1024 * 1024
        assert talk.waiting.qsize() < 200

    play(tmp_path, act)


@pytest.mark.parametrize("what", ["announced", "heads", "endless", "wrong lane",
                                  "nonsense", "no such log"])  # fmt: skip
def test_what_is_too_much_or_makes_no_sense_costs_the_one_who_sends_it(tmp_path, what):
    async def act(scene):
        liar = scene.liar
        head = Head(Log(liar.key, "e", TEAM), FAR, ZERO)
        match what:
            case "announced":
                link, _ = await scene.says(wire.Announce(head))
            case "heads":
                many = [Head(Log(liar.key, f"e{n}", TEAM), FAR, ZERO) for n in range(5_000)]
                link, _ = await scene.says(wire.Have(many), wire.Have(many))
            case "no such log":
                link, _ = await scene.says(*[wire.Want(Log(liar.key, "e", TEAM), n)
                                             for n in range(500)])  # fmt: skip
            case "wrong lane":
                link, _ = await scene.says(wire.Grant("x"))
                await link.until_ended()
            case "nonsense":
                link, _ = await scene.says(b"\xc1" * 100)
                await link.until_ended()
            case "endless":
                link, stream = await scene.says(wire.Have([]))
                segment = wire.encode(liar.says(*[liar.lesson()[1] for _ in range(50)]))
                for _ in range(200):
                    await stream.send(segment)  # The same again and again.
        await scene.goes_on()

    play(tmp_path, act)
