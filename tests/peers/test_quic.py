"""The bus over QUIC, between two banks on loopback, in fair weather and foul."""

from __future__ import annotations

import asyncio
import gc
import os
import random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.peers.quic_banks import (
    GUEST,
    HAVE,
    HOME,
    OTHER,
    STATUS,
    Home,
    call,
    echoed,
    play,
    welcomed,
)
from tests.peers.relay import Relay
from tests.requirement import requirement

from reasonbank.errors import InvalidInput
from reasonbank.peers import wire
from reasonbank.peers.certificate import certificate
from reasonbank.peers.framing import WINDOW
from reasonbank.peers.hello import hello
from reasonbank.peers.quic import Link, MemoryTickets, Quic
from reasonbank.peers.transport import ConnectionEnded, Limits
from reasonbank.peers.wire import Lane

QUICK = Limits(idle=0.6, handshake=0.5)


@requirement("BUS-1")
def test_each_lane_has_a_stream_of_its_own():
    async def scene():
        async with Home() as home:
            link, control = await call(Quic(GUEST), home.address)
            assert (await welcomed(control)).name == "home"
            for lane in Lane:
                assert await echoed(link, lane=lane) == HAVE
            await link.close()

    play(scene)


@requirement("BUS-1")
def test_a_hundred_streams_at_the_same_time():
    async def scene():
        async with Home() as home:
            link, control = await call(Quic(GUEST), home.address)
            await welcomed(control)
            streams = [await link.stream(Lane.MEMORY) for _ in range(99)]
            for stream in streams:
                await stream.send(HAVE)
            answers = [await stream.receive() for stream in streams]
            assert answers == [HAVE] * 99
            await link.close()

    play(scene)


def test_a_stream_more_than_is_allowed_waits_until_another_one_ends():
    async def scene():
        async with Home() as home:
            link, control = await call(Quic(GUEST), home.address)
            await welcomed(control)
            for _ in range(300):
                assert await echoed(link) == HAVE
            streams = [await link.stream(Lane.MEMORY) for _ in range(99)]
            for stream in streams:
                await stream.send(HAVE)
            waiting = asyncio.create_task(link.stream(Lane.STATUS))
            assert await streams[0].receive() == HAVE
            assert not waiting.done()
            await streams[0].close()
            assert (await waiting).lane is Lane.STATUS
            await link.close()

    play(scene)


def test_a_frame_longer_than_the_window_arrives_whole():
    async def scene():
        async with Home() as home:
            link, control = await call(Quic(GUEST), home.address)
            await welcomed(control)
            trace = random.Random(1).randbytes(wire.LONGEST_FRAME // 2)
            assert len(trace) > WINDOW
            frame = wire.encode(wire.Result("offer", trace, 0))
            assert await echoed(link, frame, Lane.TASK) == frame
            with pytest.raises(wire.BadFrame, match="cannot be sent"):
                await echoed(link, bytes(wire.LONGEST_FRAME + 1))
            await link.close()

    play(scene)


@requirement("BUS-2")
def test_a_bank_with_another_key_than_the_one_called_is_not_talked_to():
    async def scene():
        async with Home() as home:
            with pytest.raises(ConnectionEnded, match="does not have the key"):
                await Quic(GUEST).connect(home.address, OTHER.key)

    play(scene)


@requirement("BUS-2")
def test_a_caller_that_cannot_sign_for_its_key_is_refused():
    async def scene():
        async with Home() as home, Home(identity=OTHER) as other:
            quic = Quic(GUEST)
            bystander, control = await call(Quic(GUEST), home.address)
            await welcomed(control)
            elsewhere, _ = await call(quic, other.address, to=OTHER)
            first, _ = await call(quic, home.address)
            said = hello(GUEST, first.binding, name="guest", at=0, token=b"")
            forged = hello(OTHER, first.binding, name="guest", at=0, token=b"")
            for_another_bank = hello(GUEST, elsewhere.binding, name="guest", at=0, token=b"")
            for lie in (
                said,  # Of another connection.
                for_another_bank,
                wire.Hello(1, GUEST.key, "guest", 0, b"", forged.signature),
                wire.Hello(1, GUEST.key, "guest", 0, b"more", said.signature),
            ):
                link = await quic.connect(home.address, HOME.key)
                control = await link.stream(Lane.CONTROL)
                await control.send(wire.encode(lie))
                assert await link.until_ended() == "not who it says"
            assert len(home.refused) == 4
            assert await echoed(bystander) == HAVE
            assert [link.peer_key for link in home.links[-4:]] == [None] * 4
            for link in (bystander, elsewhere, first):
                await link.close()

    play(scene)


@requirement("BUS-1", "BUS-6")
def test_who_comes_again_is_heard_before_the_connection_is_established():
    async def scene():
        async with Home() as home:
            quic = Quic(GUEST)
            first, control = await call(quic, home.address)
            await welcomed(control)
            assert not first.early and home.heard_early == []
            await first.close()
            again, control = await call(quic, home.address)
            assert not again.established
            await welcomed(control)
            assert again.early and home.links[-1].early
            assert [type(frame) for frame in home.heard_early] == [wire.Hello]
            assert home.links[-1].peer_key == GUEST.key
            await again.close()

    play(scene)


@requirement("BUS-6")
def test_what_is_not_safe_to_replay_waits_for_the_connection():
    async def scene():
        async with Home() as home:
            quic = Quic(GUEST)
            first, control = await call(quic, home.address)
            await welcomed(control)
            await first.close()
            again, control = await call(quic, home.address)
            await (await again.stream(Lane.STATUS)).send(STATUS)
            assert again.established  # It was not sent before.
            assert await echoed(again, STATUS, Lane.STATUS) == STATUS
            assert [type(frame) for frame in home.heard_early] == [wire.Hello]
            await again.close()

    play(scene)


class Forgetful(MemoryTickets):
    """Gives a ticket out as often as it is asked for: what no store may do."""

    def take(self, name):
        return self._kept.get(name)


async def recorded_flight(home: Home) -> list[bytes]:
    """The datagrams of a resumed connection, up to its end, with frames of both kinds in them: its
    caller does not keep to the rule."""
    async with Relay(home.address) as relay:
        quic = Quic(GUEST)
        first, control = await call(quic, relay.address)
        await welcomed(control)
        await first.close()
        relay.recorded.clear()
        again, control = await call(quic, relay.address)
        status = await again.stream(Lane.STATUS)
        again.called = False  # As if it was somebody whose early data need not be safe.
        await status.send(STATUS)
        again.called = True
        await welcomed(control)
        assert again.early
        assert await status.receive() == STATUS
        await again.close()
        await home.links[-1].until_ended()
        return list(relay.recorded)


async def sent_again(home: Home, flight: list[bytes]) -> None:
    """From a stranger's socket, until the bank has given up on it."""
    async with Relay(home.address) as relay:
        host, port = relay.address.split(":")
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(host, int(port))
        )
        for datagram in flight:
            transport.sendto(datagram)
        await relay.until_passed(len(flight) + 1)
        transport.close()
        await home.door.until_quiet()


@requirement("BUS-6")
def test_a_recorded_opening_is_not_heard_again():
    async def scene():
        async with Home(Quic(HOME, limits=QUICK)) as home:
            flight = await recorded_flight(home)
            await home.door.until_quiet()
            heard = len(home.heard)
            assert STATUS not in [wire.encode(frame) for frame in home.heard_early]
            await sent_again(home, flight)
            assert len(home.heard) == heard

    play(scene)


@requirement("BUS-6")
def test_even_if_a_ticket_is_taken_twice_only_what_is_safe_is_heard_again():
    async def scene():
        async with Home(Quic(HOME, given=Forgetful(), limits=QUICK)) as home:
            flight = await recorded_flight(home)
            await home.door.until_quiet()
            heard = len(home.heard)
            await sent_again(home, flight)
            assert [type(frame) for frame in home.heard[heard:]] == [wire.Hello]

    play(scene)


def test_a_bank_that_was_started_anew_does_not_know_old_tickets_and_is_reached_all_the_same():
    async def scene():
        quic = Quic(GUEST)
        async with Home() as home:
            address = home.address
            link, control = await call(quic, address)
            await welcomed(control)
        assert await link.until_ended() == "the bank stops"
        async with Home() as home:
            home_again, control = await call(quic, home.address)
            await welcomed(control)
            assert home_again.established and not home_again.early
            assert [type(frame) for frame in home.heard] == [wire.Hello]
            assert await echoed(home_again) == HAVE
            await home_again.close()

    play(scene)


@pytest.mark.parametrize("early", [False, True])
def test_who_was_killed_and_started_anew_is_called_again_at_the_next_word(early):
    """And not only when nothing came for long."""

    async def scene():
        quic = Quic(GUEST)
        async with Home() as home, Relay(home.address) as relay:
            link, control = await call(quic, relay.address)
            await welcomed(control)
            if early:
                await link.close()
                link, control = await call(quic, relay.address)
                await welcomed(control)
                assert link.early
            relay.parted = True  # Nobody hears of its end.
            await home.door.close()
            relay.parted = False
            home.door = await Quic(HOME).listen(home.address, home.serve)
            with pytest.raises(ConnectionEnded, match="does not know this connection"):
                await echoed(link)
            link, control = await call(quic, relay.address)
            await welcomed(control)
            assert await echoed(link) == HAVE
            await link.close()

    play(scene)


def test_nobody_else_ends_a_connection_in_the_name_of_the_bank():
    async def scene():
        async with Home() as home, Home(identity=OTHER) as other, Relay(home.address) as relay:
            link, control = await call(Quic(GUEST), relay.address)
            await welcomed(control)
            relay.target = tuple(other.door.name)
            relay.rebind()  # Its datagrams go to another bank, which knows nothing of it.
            stream = await link.stream(Lane.MEMORY)
            await stream.send(HAVE)
            await relay.until_passed(4)
            assert link.ended is None
            relay.target = tuple(home.door.name)
            relay.rebind()
            assert await stream.receive() == HAVE
            await link.close()

    play(scene)


def test_the_certificate_is_one_that_others_can_read_too():
    shown, secret = certificate(HOME)
    parsed = x509.load_pem_x509_certificate(shown)
    assert parsed.public_key().public_bytes_raw() == HOME.key
    parsed.verify_directly_issued_by(parsed)
    assert serialization.load_pem_private_key(secret, None).private_bytes_raw() == HOME.seed


@requirement("BUS-2")
def test_an_impostor_learns_nothing_from_early_data():
    async def scene():
        quic = Quic(GUEST)
        async with Home() as home:
            link, control = await call(quic, home.address)
            await welcomed(control)
            await link.close()
        async with Home(Quic(OTHER, limits=QUICK), identity=OTHER) as impostor:
            link, control = await call(quic, impostor.address, to=HOME)
            with pytest.raises(ConnectionEnded, match="does not have the key"):
                await control.receive()
            await impostor.door.until_quiet()
            assert impostor.heard == []

    play(scene)


def test_tickets_can_be_kept_by_somebody_else():
    async def scene():
        tickets, given = MemoryTickets(), MemoryTickets()
        async with Home(Quic(HOME, given=given)) as home:
            link, control = await call(Quic(GUEST, tickets=tickets), home.address)
            await welcomed(control)
            await link.close()
        async with Home(Quic(HOME, given=given)) as home:
            link, control = await call(Quic(GUEST, tickets=tickets), home.address)
            await welcomed(control)
            assert link.early
            await link.close()
        tickets.keep(HOME.key, b"from another release")
        async with Home() as home:
            link, control = await call(Quic(GUEST, tickets=tickets), home.address)
            await welcomed(control)
            await link.close()

    play(scene)


def test_a_slow_reader_makes_its_sender_wait_and_nobody_else():
    async def scene():
        taken: asyncio.Queue[Link] = asyncio.Queue()

        async def serve(link: Link) -> None:
            link.authenticated(GUEST.key)
            await taken.put(link)
            await link.until_ended()

        door = await Quic(HOME).listen("127.0.0.1:0", serve)
        link = await Quic(GUEST).connect(door.address, HOME.key)
        there = await taken.get()
        slow = await link.stream(Lane.MEMORY)
        frame = bytes(100_000)

        async def push():
            for _ in range(20):
                await slow.send(frame)

        pushing = asyncio.create_task(push())
        unread = await there.accept()
        quick = await link.stream(Lane.STATUS)
        for _ in range(50):
            await quick.send(HAVE)
        other = await there.accept()
        for _ in range(50):
            assert await other.receive() == HAVE
        assert not pushing.done()
        assert there.waiting <= WINDOW
        for _ in range(20):
            assert await unread.receive() == frame
        await pushing
        await link.close()
        await door.close()

    play(scene)


def test_what_was_sent_before_the_end_arrives():
    """Also what was lost, and waits for its turn to be sent again."""
    frames = [bytes([1, number]) * 1000 for number in range(50)]

    async def serve(link: Link) -> None:
        stream = await link.accept()
        for frame in frames:
            await stream.send(frame)
        await stream.close()

    async def hear(address: str, seed: int) -> None:
        async with Relay(address, seed=seed) as relay:
            link = await Quic(GUEST).connect(relay.address, HOME.key)
            relay.drop = 0.2
            stream = await link.stream(Lane.MEMORY)
            await stream.send(HAVE)
            assert [await stream.receive() for _ in range(51)] == [*frames, None]
            await link.close()

    async def scene():
        door = await Quic(HOME).listen("127.0.0.1:0", serve)
        async with asyncio.TaskGroup() as callers:
            for seed in range(8):
                callers.create_task(hear(door.address, seed))
        await door.close()

    play(scene)


async def reached(quic: Quic, address: str) -> Link:
    """As a bank does, which calls again where a call comes to nothing: of a hundred that begin with
    early data on such a network one does, for the library has nothing more to send."""
    while True:
        link, control = await call(quic, address)
        try:
            await welcomed(control)
        except ConnectionEnded:
            continue
        return link


@pytest.mark.parametrize("seed", range(3))
def test_frames_come_once_and_in_order_over_a_bad_network(seed):
    async def scene():
        weather = {"seed": seed, "drop": 0.1, "duplicate": 0.1, "jitter": 0.004}
        async with Home() as home, Relay(home.address, **weather) as relay:
            quic = Quic(GUEST)
            for _ in range(3):
                link = await reached(quic, relay.address)
                stream = await link.stream(Lane.TASK)
                sent = [wire.encode(wire.Take(str(number))) for number in range(100)]
                for frame in sent:
                    await stream.send(frame)
                assert [await stream.receive() for _ in sent] == sent
                await link.close()

    play(scene)


def test_a_connection_goes_on_when_the_address_of_the_caller_changes():
    async def scene():
        async with Home() as home, Relay(home.address) as relay:
            link, control = await call(Quic(GUEST), relay.address)
            await welcomed(control)
            before = home.links[0].address
            for _ in range(3):
                relay.rebind()
                assert await echoed(link) == HAVE
            assert home.links[0].address != before
            assert len(home.links) == 1
            await link.close()

    play(scene)


def test_when_nothing_comes_any_more_both_sides_notice_and_can_begin_again():
    async def scene():
        async with Home(Quic(HOME, limits=QUICK)) as home, Relay(home.address) as relay:
            quic = Quic(GUEST, limits=QUICK)
            link, control = await call(quic, relay.address)
            await welcomed(control)
            relay.parted = True
            with pytest.raises(ConnectionEnded):
                await control.receive()
            await home.links[0].until_ended()
            _, control = await call(quic, relay.address)
            with pytest.raises(ConnectionEnded, match="nobody answered"):
                await control.receive()
            relay.parted = False
            link, control = await call(quic, relay.address)
            await welcomed(control)
            await link.close()

    play(scene)


def test_a_connection_without_work_is_kept_alive():
    async def scene():
        async with Home(Quic(HOME, limits=QUICK)) as home, Relay(home.address) as relay:
            link, control = await call(Quic(GUEST, limits=QUICK), relay.address)
            await welcomed(control)
            await relay.until_passed(20)  # Far more than the end of the handshake.
            assert await echoed(link) == HAVE
            await link.close()

    play(scene)


def test_a_machine_that_slept_knows_at_once_that_it_must_call_again():
    async def scene():
        slept = 0.0
        async with Home() as home:
            loop = asyncio.get_running_loop()
            quic = Quic(GUEST, limits=Limits(idle=0.3), awake=lambda: loop.time() + slept)
            link, control = await call(quic, home.address)
            await welcomed(control)
            slept = 3600.0
            assert await link.until_ended() == "this machine slept"
            link, control = await call(quic, home.address)
            await welcomed(control)
            await link.close()

    play(scene)


def test_nobody_there_is_said_in_time():
    async def scene():
        quic = Quic(GUEST, limits=QUICK)
        async with Home() as home:
            address = home.address
        with pytest.raises(ConnectionEnded, match=r"nobody answered within 0\.5 s"):
            await quic.connect(address, HOME.key)
        with pytest.raises(ConnectionEnded, match="cannot find"):
            await quic.connect("no.such.host.invalid:1", HOME.key)
        for wrong in ("host", "host:", ":1", "host:99999", "host:-1"):
            with pytest.raises(InvalidInput, match="is not host:port"):
                await quic.connect(wrong, HOME.key)
        with pytest.raises(InvalidInput, match="in brackets"):
            await quic.connect("fd00::1:7433", HOME.key)

    play(scene)


def test_an_address_that_is_taken_is_said():
    async def scene():
        async with Home() as home:
            with pytest.raises(ConnectionEnded, match="cannot listen at"):
                await Quic(OTHER).listen(home.address, home.serve)

    play(scene)


def rss() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat_over_many_reconnects():
    """1,000 of them in the soak."""
    reconnects = int(os.environ.get("REASONBANK_TEST_RECONNECTS", "60"))

    async def scene():
        async with Home() as home:
            quic = Quic(GUEST)

            async def reconnect(times):
                for number in range(times):
                    link, control = await call(quic, home.address)
                    await welcomed(control)
                    await link.close()
                    home.heard.clear()
                    home.heard_early.clear()
                    home.links.clear()
                    if number % 20 == 19:
                        await home.door.until_quiet()
                gc.collect()
                return rss()

            before = await reconnect(60)  # What is loaded and pooled once.
            after = await reconnect(reconnects)
            print(f"{reconnects:,} reconnects: {after - before:+,} bytes of {after:,}")
            assert after - before < 4_000_000

    asyncio.run(scene())
