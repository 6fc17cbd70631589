"""Machines of their own, for tests: network namespaces, each with a cable to a switch.

Only what is made here is ever touched: the switch is in a namespace too, and all go in the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from typing import Any


def obstacle() -> str | None:
    """Why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2)"
    name = f"rb{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"the kernel makes no network namespace: {made.stderr.strip()}"
    try:
        bridge = ["ip", "-n", name, "link", "add", "switch", "type", "bridge"]
        made = subprocess.run(bridge, capture_output=True, text=True)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True, capture_output=True)
    return f"the kernel makes no bridge: {made.stderr.strip()}" if made.returncode else None


class Namespaces:
    """``count`` machines at 10.77.0.1, 10.77.0.2 and so on; all reach each other until parted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._prefix = f"rb{os.getpid()}x{id(self) % 9973}"
        self._made: list[str] = []

    def __enter__(self) -> Namespaces:
        try:
            self._add(self._hub)
            self._switch("switch0")
            for machine in range(self.count):
                self._plug(machine)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """A cable goes with its end; whatever runs inside is the business of who started it."""
        while self._made:
            _ip("netns", "del", self._made.pop())

    def host(self, machine: int) -> str:
        return f"10.77.0.{machine + 1}"

    def command(self, machine: int, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._name(machine), *argv]

    def start(self, machine: int, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(self.command(machine, argv), **options)

    def part(self, *groups: Collection[int]) -> None:
        """Only machines of one group reach each other; those that are named nowhere, nobody."""
        together = {machine: number for number, group in enumerate(groups) for machine in group}
        for number in range(1, len(groups)):
            self._switch(f"switch{number}")
        for machine in range(self.count):
            if machine in together:
                self._connect(machine, f"switch{together[machine]}")
            else:
                _ip("-n", self._hub, "link", "set", f"port{machine}", "nomaster")

    def heal(self) -> None:
        for machine in range(self.count):
            self._connect(machine, "switch0")

    def readdress(self, machine: int, host: str) -> None:
        """As a laptop that joins another network."""
        name = self._name(machine)
        _ip("-n", name, "addr", "flush", "dev", "cable")
        _ip("-n", name, "addr", "add", f"{host}/24", "dev", "cable")

    @property
    def _hub(self) -> str:
        return f"{self._prefix}hub"

    def _name(self, machine: int) -> str:
        return f"{self._prefix}m{machine}"

    def _add(self, name: str) -> None:
        _ip("netns", "add", name)
        self._made.append(name)

    def _switch(self, name: str) -> None:
        have = subprocess.run(
            ["ip", "-n", self._hub, "link", "show", name], capture_output=True, check=False
        )
        if have.returncode:
            _ip("-n", self._hub, "link", "add", name, "type", "bridge")
            _ip("-n", self._hub, "link", "set", name, "up")

    def _plug(self, machine: int) -> None:
        name = self._name(machine)
        self._add(name)
        _ip("-n", self._hub, "link", "add", f"port{machine}", "type", "veth",
            "peer", "name", "cable", "netns", name)  # fmt: skip
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "addr", "add", f"{self.host(machine)}/24", "dev", "cable")
        _ip("-n", name, "link", "set", "cable", "up")
        self._connect(machine, "switch0")
        _ip("-n", self._hub, "link", "set", f"port{machine}", "up")

    def _connect(self, machine: int, switch: str) -> None:
        _ip("-n", self._hub, "link", "set", f"port{machine}", "master", switch)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
