"""The other side of ``client``: whoever has a bank open for long answers the hooks of its owner.

Every such process has a socket of its own in a folder beside the bank, and a hook takes any of
them: they come and go, and one that was killed leaves a name behind at which nobody answers.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from reasonbank.errors import ReasonBankError
from reasonbank.surfaces.hooks import client

if TYPE_CHECKING:
    from pathlib import Path

    from reasonbank.bank import Bank
    from reasonbank.settings import Settings

AT_ONCE = 16
BACKLOG = 64
PATIENCE = 1.5
"""Seconds that a hook gets to tell what it wants; it has no longer itself."""
MOST_BYTES = client.MOST_BYTES + 1_000_000


class Door:
    """Answers hooks from ``open`` to ``close``; neither raises, for a server can do without."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._path: Path | None = bank.store.ledger.path
        self._stat = self._stat_of(self._path)
        self._folder = f"{self._path}.hooks"
        self._name = f"{os.getpid():x}-{os.urandom(3).hex()}"
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._listen, name="hooks", daemon=True)
        self._places = threading.Semaphore(AT_ONCE)
        self._noting: set[threading.Event] = set()
        self._known: tuple[object, Settings | None] = (None, None)

    def open(self) -> None:
        if self._path is None or self._bank.store.ledger.read_only or not hasattr(os, "fork"):
            return
        with suppress(OSError):
            self._listener = self._bound()
            self._thread.start()

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                os.unlink(f"{self._folder}/{self._name}")
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _bound(self) -> socket.socket:
        """Under another name until it listens: nobody takes it for one that was left behind."""
        with suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        found = os.lstat(self._folder)
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{self._folder} is another user's")
        if found.st_mode & 0o077:
            os.chmod(self._folder, 0o700)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made = f".{self._name}"
            client.with_short_path(self._folder, made, listener.bind)
            os.chmod(f"{self._folder}/{made}", 0o600)
            listener.listen(BACKLOG)
            os.rename(f"{self._folder}/{made}", f"{self._folder}/{self._name}")
        except OSError:
            listener.close()
            raise
        return listener

    def _listen(self) -> None:
        while (listener := self._listener) is not None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # Whoever finds no place is not greeted, and helps itself.
            self._places.acquire()
            # Nobody waits for them: a server that is told to end does so.
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._answer(connection)
        finally:
            self._places.release()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ReasonBankError):
            connection.settimeout(PATIENCE)
            if not client.is_own(connection):
                return
            connection.sendall(client.HERE)
            call = received(connection)
            if call is None or _has_gone(connection):
                return
            settings = self._settings_of(call)
            if settings is None:
                connection.sendall(client.framed(client.OTHERS))
                return
            from reasonbank.surfaces.hooks.answering import FAILED, answered

            for noted in list(self._noting):
                noted.wait(PATIENCE)
            answer = answered(call, settings, lambda meaning: self._bank.context)
            if answer.word.startswith(FAILED) and self._listener is None:
                return  # The bank was closed meanwhile.
            # Who asks next knows what this one was told, though it has it before it is stored.
            self._noting.add(noted := threading.Event())
            try:
                told = answer.text.encode("utf-8", "replace")
                connection.sendall(client.framed(client.MINE + told))
                connection.close()
                with suppress(OSError):
                    client.note(call, answer.word)
                answer.finish()
            finally:
                noted.set()
                self._noting.discard(noted)

    def _settings_of(self, call: client.Call) -> Settings | None:
        """The settings of who calls; None if they mean another bank than the one that is open."""
        from reasonbank.settings import config_path, load
        from reasonbank.surfaces.hooks.answering import meant

        assert self._path is not None
        file = config_path(call.environment)
        key = (call.bank, call.directory, tuple(call.environment.items()), self._stat_of(file))
        known = self._known
        if known[0] != key:
            self._known = known = (key, load(call.environment))
        settings = known[1]
        assert settings is not None
        there = self._stat_of(meant(call, settings))
        is_mine = there is not None and there[:2] == (self._stat or ())[:2]
        return settings if is_mine else None

    @staticmethod
    def _stat_of(path: Any) -> tuple[int, ...] | None:
        try:
            found = os.stat(path)
        except (OSError, TypeError, ValueError):
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns


def received(connection: socket.socket) -> client.Call | None:
    """What a hook was called with and told."""
    length = int.from_bytes(_exactly(connection, client.LENGTH), "big")
    if length > MOST_BYTES:
        return None
    request = _exactly(connection, length)
    parts: list[bytes] = []
    while request:
        size = int.from_bytes(request[: client.LENGTH], "big")
        parts.append(request[client.LENGTH : client.LENGTH + size])
        request = request[client.LENGTH + size :]
    if len(parts) != 6:
        return None
    event, agent, bank, directory, environment = (os.fsdecode(part) for part in parts[:5])
    told = dict(line.partition("=")[::2] for line in environment.split("\0") if line)
    call = client.Call([event, "--agent", agent, "--bank", bank], told, directory)
    call.told = parts[5]
    return call


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(1_048_576, size - len(found)))
        if not part:
            raise ConnectionAbortedError
        found += part
    return bytes(found)


def _has_gone(connection: socket.socket) -> bool:
    """Whoever has waited in vain has answered itself meanwhile."""
    connection.settimeout(0)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(PATIENCE)


@contextmanager
def answering_hooks(bank: Bank) -> Iterator[None]:
    door = Door(bank)
    door.open()
    try:
        yield
    finally:
        door.close()
