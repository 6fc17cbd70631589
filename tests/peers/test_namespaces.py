"""Banks on machines of their own: another address, a cable that is pulled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.peers.namespaces import Namespaces, obstacle

LISTEN = """
import asyncio
from tests.peers.quic_banks import Home
async def main():
    home = Home()
    door = await home.quic.listen("0.0.0.0:4433", home.serve)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
CALL = """
import asyncio, sys
from reasonbank.peers.quic import Quic
from reasonbank.peers.transport import ConnectionEnded, Limits
from tests.peers.quic_banks import GUEST, HAVE, call, echoed, welcomed
async def main():
    quic = Quic(GUEST, limits=Limits(idle=0.9, handshake=0.5))
    link = None
    for line in sys.stdin:
        try:
            if link is None or link.ended:
                link, control = await call(quic, sys.argv[1])
                await welcomed(control)
                print("new", end=" ")
            async with asyncio.timeout(5):
                assert await echoed(link) == HAVE
            print("echo", flush=True)
        except ConnectionEnded:
            link = None
            print("ended", flush=True)
asyncio.run(main())
"""


@pytest.fixture
def machines() -> Iterator[Namespaces]:
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    with Namespaces(3) as made:
        yield made


def python(machines: Namespaces, machine: int, script: str, *arguments: str):
    return machines.start(
        machine,
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_machines_reach_each_other_until_they_are_parted(machines):
    def reaches(one: int, other: int) -> bool:
        probe = (
            "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_STREAM); "
            f"s.settimeout(0.3); sys.exit(s.connect_ex(('{machines.host(other)}', 9)) != 111)"
        )
        return machines.start(one, [sys.executable, "-c", probe]).wait() == 0

    assert reaches(0, 1) and reaches(0, 2)
    machines.part([0, 1], [2])
    assert reaches(0, 1) and not reaches(0, 2)
    machines.part([0], [1, 2])
    assert reaches(1, 2) and not reaches(0, 1)
    machines.heal()
    assert reaches(0, 1) and reaches(0, 2)


def test_a_bank_is_reached_again_after_the_cable_was_pulled_and_from_another_address(machines):
    with python(machines, 0, LISTEN) as home:
        try:
            assert home.stdout.readline() == "ready\n"
            with python(machines, 1, CALL, f"{machines.host(0)}:4433") as guest:

                def ask() -> str:
                    guest.stdin.write("\n")
                    guest.stdin.flush()
                    return guest.stdout.readline().strip()

                assert ask() == "new echo"
                assert ask() == "echo"
                machines.part([0, 2], [1])
                assert ask() == "ended"
                assert ask() == "ended"
                machines.heal()
                assert ask() == "new echo"
                machines.readdress(1, "10.77.0.99")
                assert ask() in ("echo", "ended")
                assert ask().endswith("echo")
                guest.stdin.close()
                assert guest.wait() == 0
        finally:
            home.kill()
