"""A real `reasonbank serve` on loopback, and clients for it."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx2

LESSON = {"title": "Retry uploads", "description": "When an upload breaks off half-way",
          "content": "Wait longer each time, and resume where it broke.",
          "outcome": "success"}  # fmt: skip


NONE = ""
"""In the place of a token: send none. Without a word, the owner's is sent."""


class Server:
    """One server process, its folder, its address and its owner's token."""

    def __init__(self, folder: Path, process, address: str, token: str | None = None):
        self.folder = folder
        self.process = process
        self.address = address
        self.token = token

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def allowed(self, token=None):
        """The header that shows a token."""
        token = self.token if token is None else token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def client(self, token=None, workspace=None, **options):
        headers = self.allowed(token) | dict(options.pop("headers", {}))
        if workspace:
            headers["X-ReasonBank-Workspace"] = str(workspace)
        return httpx2.Client(
            base_url=f"{self.address}/api/v1", headers=headers, timeout=60, **options
        )

    def ask(self, method, path, token=None, workspace=None, headers=None, **content):
        """One request through a client of its own."""
        with self.client(token, workspace, headers=headers or {}) as client:
            return client.request(method, path, **content)

    def get(self, path, token=None, headers=None, **options):
        headers = self.allowed(token) | (headers or {})
        return httpx2.get(self.address + path, timeout=60, headers=headers, **options)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are; all that comes back until the server hangs up."""
        with self.socket() as connection:
            connection.sendall(data)
            return everything(connection)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(60)

    def alive(self):
        return self.process.poll() is None and self.get("/livez").status_code == 200


def everything(connection):
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def environment(folder: Path, **settings):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("REASONBANK_")}  # fmt: skip
    return kept | {
        "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
        "REASONBANK_EMBED_MODEL": "hashed", "USER": "tester",
    } | {name: str(value) for name, value in settings.items()}  # fmt: skip


def command(folder: Path, *arguments, **settings):
    """Run `reasonbank`; its exit code and its JSON, or what it wrote to stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "--json", *map(str, arguments)],
        env=environment(folder, **settings), cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def a_token(folder: Path, scope="admin", *arguments):
    code, told = command(folder, "token", "create", "--scope", scope, *arguments)
    assert code == 0, told
    return told["token"]


@contextmanager
def serving(folder: Path, *arguments, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "stderr", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", "--json", "serve", "--port", "0",
             *map(str, arguments)],
            env=environment(folder, **settings), cwd=folder, stdout=subprocess.PIPE, stderr=log,
            text=True,
        )  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()
        told = json.loads(line)
        file = told["token_file"]
        token = Path(file).read_text().strip() if file else None
        yield Server(folder, process, told["address"], token)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stdout.close()
