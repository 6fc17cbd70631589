"""Two banks that were joined as a person does it: by commands, over QUIC on loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.surfaces.http_server import Server, command, serving

TITLE = "Pin the base image by digest"
SHARED = ("record", "--scope", "team", "--outcome", "success", "--description")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Other:
    """The bank that joins."""

    folder: Path
    author: str = "ben"

    def run(self, *arguments: str) -> Any:
        code, told = command(self.folder, *arguments, REASONBANK_AUTHOR=self.author)
        assert code == 0, told
        return told

    def record(self, title: str) -> None:
        self.run(*SHARED, f"When {title}", "--title", title, "--content", f"{title}, always.")


@dataclass
class Joined:
    server: Server
    other: Other

    @property
    def key(self) -> str:
        return str(self.other.run("peer", "id")["key"])

    def run(self, *arguments: str) -> Any:
        code, told = command(self.server.folder, *arguments)
        assert code == 0, told
        return told

    def peer(self) -> dict[str, Any]:
        [found] = self.server.ask("GET", "/peers").json()["peers"]
        return dict(found)


def listen_at_a_free_port(folder: Path, *options: str) -> None:
    code, told = command(folder, *options, "peer", "init", "--listen", f"127.0.0.1:{free_port()}")
    assert code == 0, told


@contextmanager
def joined(folder: Path, *titles: str) -> Iterator[Joined]:
    """The other one is called bob here; what it knew before it came has these titles."""
    for name in ("here", "there"):
        listen_at_a_free_port(folder / name)
    with serving(folder / "here", "--bus") as server:
        pair = Joined(server, Other(folder / "there"))
        for title in titles or (TITLE,):
            pair.other.record(title)
        invited = command(server.folder, "peer", "invite", "--name", "bob", "--no-wait")[1]
        pair.other.run("peer", "join", invited["invitation"], "--name", "anna")
        yield pair
