"""Machines of their own, each with a bank that is served as the how-to says: cables are pulled,
programs killed, and in the end all know the same."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from tests.faults.fault_tools import keep_count, scaled
from tests.peers.namespaces import Namespaces, obstacle
from tests.requirement import requirement
from tests.surfaces.http_server import environment

CLI = [sys.executable, "-m", "reasonbank.surfaces.cli", "--json"]
LESSON = ("--description", "when", "--outcome", "success", "--scope", "team")
MOST_SECONDS = 300


class Machine:
    def __init__(self, network, number, folder):
        self.network, self.number = network, number
        self.folder = folder / f"machine{number}"
        self.folder.mkdir()
        host = network.host(number)
        self.environment = environment(self.folder)
        self.server = None
        self("peer", "init", "--name", f"machine {number}", "--address", f"{host}:7433")

    def __call__(self, *arguments):
        done = subprocess.run(
            self.network.command(self.number, [*CLI, *arguments]), env=self.environment,
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def serve(self):
        with open(self.folder / "log", "ab") as log:
            self.server = self.network.start(
                self.number, [*CLI, "serve", "--bus", "--port", "0"], env=self.environment,
                cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.server.stdout.readline(), (self.folder / "log").read_text()

    def end(self, how=signal.SIGTERM):
        if self.server is not None:
            self.server.send_signal(how)
            self.server.wait(60)
            self.server.stdout.close()
            self.server = None

    def learns(self, title):
        return self("record", "--title", title, "--content", f"{title}: do it.", *LESSON)["id"]

    def knows(self):
        return {
            (memory["id"], memory["title"], memory["content"], memory["state"])
            for memory in self("list", "--limit", "1000")
        }


@pytest.mark.slow
@requirement("BUS-4")
def test_machines_that_were_parted_and_killed_know_the_same_in_the_end(tmp_path):
    """In a soak with ten machines; a few of them where nobody asks for more."""
    count = scaled("REASONBANK_TEST_BUS_MACHINES", 0)
    if not count:
        pytest.skip("machines of their own are part of the soak")
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    rng = random.Random(scaled("REASONBANK_TEST_SEED", 0))
    with Namespaces(count) as network:
        machines = [Machine(network, number, tmp_path) for number in range(count)]
        try:
            for machine in machines:
                machine.learns(f"Of machine {machine.number}")
                machine.serve()
                if machine.number:
                    inviter = rng.choice(machines[: machine.number])
                    machine("peer", "join", inviter("peer", "invite", "--no-wait")["invitation"])
            for number in range(3):
                mixed = rng.sample(range(count), count)
                cut = rng.randint(1, count - 1)
                network.part(mixed[:cut], mixed[cut:])
                for machine in rng.sample(machines, min(4, count)):
                    id = machine.learns(f"Round {number} of machine {machine.number}")
                    if rng.random() < 0.3:
                        machine("forget", id, "--yes")
                victim = rng.choice(machines)
                victim.end(signal.SIGKILL)
                victim.serve()
                network.heal()
            end = time.monotonic() + MOST_SECONDS
            while len({frozenset(machine.knows()) for machine in machines}) > 1:
                assert time.monotonic() < end, {m.number: len(m.knows()) for m in machines}
            known = machines[0].knows()
            assert len({title for _, title, *_ in known if title.startswith("Of")}) == count
            keep_count("bus, machines of their own", {"machines": count, "lessons": len(known)})
        finally:
            for machine in machines:
                machine.end()
