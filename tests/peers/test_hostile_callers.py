"""What a caller may try against the transport: it loses its own connection, and nobody else's."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from qh3.quic.packet import QuicProtocolVersion
from tests.peers.quic_banks import (
    GUEST,
    HAVE,
    HOME,
    OTHER,
    Home,
    call,
    echoed,
    play,
    welcomed,
)  # fmt: skip
from tests.peers.relay import udp
from tests.requirement import requirement

from reasonbank.peers import quic as quic_module
from reasonbank.peers.framing import WINDOW
from reasonbank.peers.quic import Link, Quic
from reasonbank.peers.transport import ConnectionEnded, Limits
from reasonbank.peers.wire import Lane

GIVES_UP_SOON = Limits(handshake=0.5)


@asynccontextmanager
async def an_attack(home: Home):
    """A connection to misuse; all the time somebody else's goes on."""
    bystander, control = await call(Quic(GUEST), home.address)
    await welcomed(control)
    attacker, control = await call(Quic(GUEST), home.address)
    await welcomed(control)
    yield attacker
    assert await echoed(bystander) == HAVE
    assert bystander.ended is None
    await bystander.close()
    await attacker.close()


async def raw(link: Link, data: bytes, number: int | None = None) -> int:
    """Bytes on a stream, past every rule that our own sender keeps."""
    if number is None:
        number = link._quic._open_stream()
    link.write(number, data)
    return number


MEMORY = bytes([list(Lane).index(Lane.MEMORY)])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((10 * 1000**3 % 2**32).to_bytes(4, "big"), "a frame of 1,410,065,408 bytes"),
        (b"\xff\xff\xff\xff", "a frame of 4,294,967,295 bytes was announced"),
        ((2**20 + 1).to_bytes(4, "big"), "a frame of 1,048,577 bytes was announced"),
        (bytes(4), "a frame of 0 bytes was announced"),
    ],
)
def test_a_frame_that_is_announced_too_long_ends_the_connection_at_once(said, why):
    async def scene():
        async with Home() as home, an_attack(home) as attacker:
            await raw(attacker, MEMORY + said)
            assert why in await attacker.until_ended()

    play(scene)


def test_a_stream_without_end_that_nobody_reads_is_cut_off_at_the_window():
    async def scene():
        held = []

        async def serve(link: Link) -> None:
            link.authenticated(GUEST.key)
            while link.ended is None:
                await link.accept()
                held.append(link.waiting)
            held.append(link.waiting)

        door = await Quic(HOME).listen("127.0.0.1:0", serve)
        link = await Quic(GUEST).connect(door.address, HOME.key)
        number = await raw(link, MEMORY)
        frame = (1000).to_bytes(4, "big") + bytes(1000)
        while link.ended is None:
            await raw(link, frame * 100, number)
            await asyncio.sleep(0)
        assert link.ended == "more was sent than there was room for"
        assert max(held, default=0) <= WINDOW
        await door.close()

    play(scene)


def test_ten_thousand_streams_are_too_many():
    async def scene():
        async with Home() as home, an_attack(home) as attacker:
            more_than_allowed(attacker, 10_000)
            opened = 0
            while attacker.ended is None and opened < 10_000:
                await raw(attacker, MEMORY)
                opened += 1
                await asyncio.sleep(0)
            assert attacker.ended == "Bidirectional stream limit 100 exceeded"

    play(scene)


def more_than_allowed(link: Link, streams: int) -> None:
    """Let its library believe that the other side has allowed so many."""
    link._quic._core.apply_peer_transport_parameters(
        2**30, 2**30, 2**30, 2**30, streams, 100, 3, 0.025, 30.0, None
    )


@pytest.mark.parametrize("lane", [4, 255])
def test_a_lane_that_nobody_knows_ends_the_connection(lane):
    async def scene():
        async with Home() as home, an_attack(home) as attacker:
            await raw(attacker, bytes([lane]) + b"....")
            assert await attacker.until_ended() == f"no lane has the number {lane}"

    play(scene)


def test_credit_for_what_was_never_sent_ends_the_connection():
    async def scene():
        async with Home() as home, an_attack(home) as attacker:
            stream = await attacker.stream(Lane.MEMORY)
            await stream.send(HAVE)
            assert await stream.receive() == HAVE
            attacker.credit(stream.number, 2**31)
            assert await attacker.until_ended() == "credit was given for what was never sent"

    play(scene)


def test_who_does_not_say_hello_gets_little_room():
    async def scene():
        async def deaf(link: Link) -> None:
            await link.until_ended()

        limits = Limits(before_hello=WINDOW)
        door = await Quic(HOME, limits=limits).listen("127.0.0.1:0", deaf)
        link = await Quic(GUEST).connect(door.address, HOME.key)
        streams = [await link.stream(Lane.MEMORY) for _ in range(10)]
        for stream in streams:
            await stream.send(bytes(WINDOW // 4))
        assert await link.until_ended() == "too much was sent before Hello"
        with pytest.raises(ConnectionEnded, match="too much"):
            await streams[0].send(HAVE)
        await door.close()

    play(scene)


async def dart(address: str, datagrams: list[bytes]) -> None:
    host, port = address.split(":")
    socket = await udp(lambda data, sender: None, (host, int(port)))
    for number, datagram in enumerate(datagrams):
        socket.transport.sendto(datagram)
        if number % 20 == 19:
            await asyncio.sleep(0)  # The one who listens is in the same loop.
    socket.transport.close()


def initial(rng: random.Random) -> bytes:
    """What looks like the beginning of a connection, and is not."""
    version = int(QuicProtocolVersion.VERSION_1).to_bytes(4, "big")
    ids = b"\x14" + rng.randbytes(20) + b"\x08" + rng.randbytes(8)
    return b"\xc3" + version + ids + b"\0" + b"\x44\x9e" + rng.randbytes(1182)


async def answers(address: str, datagrams: list[bytes]) -> list[bytes]:
    """What comes back to a stranger's socket; an opening that is answered marks the end."""
    host, port = address.split(":")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    socket = await udp(lambda data, sender: heard.put_nowait(data), (host, int(port)))
    for datagram in datagrams:
        socket.transport.sendto(datagram)
    socket.transport.sendto(b"\xc3\xff\xff\xff\xff" + bytes(1195))  # Of another version.
    got = []
    while (data := await heard.get())[0] < 0x80:
        got.append(data)
    socket.transport.close()
    return got


def test_what_belongs_to_no_connection_is_answered_by_less_than_came():
    """So that nobody is flooded through a bank, and two banks do not answer each other."""

    async def scene():
        async with Home() as home, an_attack(home):
            known = home.links[0]._quic.host_cid
            got = await answers(home.address, [b"\x40" + bytes(size) for size in range(60)])
            assert {len(data) for data in got} == {quic_module.RESET}
            assert len(got) == 60 - quic_module.RESET
            assert await answers(home.address, got) == []
            assert await answers(home.address, [b"\x40" + known + bytes(40)]) == []

    play(scene)


@pytest.mark.parametrize("seed", range(3))
def test_garbage_harms_nobody(seed):
    async def scene():
        rng = random.Random(seed)
        async with Home(Quic(HOME, limits=GIVES_UP_SOON)) as home, an_attack(home) as attacker:
            real = home.links[0]._quic.host_cid
            garbage = [rng.randbytes(rng.choice([0, 1, 20, 21, 100, 1199, 1200, 1400]))
                       for _ in range(300)]  # fmt: skip
            garbage += [bytes([0x40 | rng.randrange(64)]) + real + rng.randbytes(60)
                        for _ in range(100)]  # fmt: skip
            garbage += [initial(rng) for _ in range(100)]
            await dart(home.address, garbage)
            assert await echoed(attacker) == HAVE

    play(scene)


def test_while_many_knock_and_do_not_come_in_others_still_can():
    async def scene():
        rng = random.Random(7)
        async with Home(Quic(HOME, limits=Limits(handshake=30))) as home:
            quic = Quic(GUEST)
            link, control = await call(quic, home.address)
            await welcomed(control)
            await link.close()
            await dart(home.address, [initial(rng) for _ in range(5 * quic_module.HALF_OPEN)])
            # They count, up to where a caller has to show that it can be answered.
            for early in (True, False):
                link, control = await call(quic if early else Quic(GUEST), home.address)
                await welcomed(control)
                assert await echoed(link) == HAVE
                await link.close()
            assert quic_module.HALF_OPEN <= home.door.connections <= quic_module.HALF_OPEN + 3

    play(scene)


async def strangers(home, count):
    """Connected, and silent."""
    quic = Quic(OTHER)
    return [await quic.connect(home.address, HOME.key) for _ in range(count)]


@requirement("BUS-2")
def test_those_who_stay_and_do_not_say_who_they_are_keep_nobody_out():
    async def scene():
        limits = Limits(connections=20, strangers=8)
        async with Home(Quic(HOME, limits=limits)) as home, an_attack(home):
            links = await strangers(home, 30)
            assert "others are waiting" in await links[0].until_ended()
            assert home.door.connections <= 10 + 1
            link, control = await call(Quic(GUEST), home.address)
            await welcomed(control)
            assert await echoed(link) == HAVE
            for each in (link, *links):
                await each.close()

    play(scene)


@requirement("BUS-2")
def test_who_does_not_say_who_it_is_in_time_is_cut_off():
    async def scene():
        async with Home(Quic(HOME, limits=Limits(hello=0.3))) as home, an_attack(home):
            [link] = await strangers(home, 1)
            stream = await link.stream(Lane.CONTROL)
            await stream.send(HAVE)
            assert "nobody said who is calling" in await link.until_ended()

    play(scene)


def test_a_bank_holds_no_more_connections_than_it_was_told():
    async def scene():
        async with Home(Quic(HOME, limits=Limits(connections=2))) as home:
            links = []
            for _ in range(2):
                link, control = await call(Quic(GUEST), home.address)
                await welcomed(control)
                links.append(link)
            with pytest.raises(ConnectionEnded, match="nobody answered"):
                await call(Quic(GUEST, limits=GIVES_UP_SOON), home.address)
            await links.pop().close()
            await home.links[-1].until_ended()
            assert await echoed(links[0]) == HAVE
            await links[0].close()

    play(scene)
