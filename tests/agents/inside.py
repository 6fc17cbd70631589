"""`python -m tests.agents.inside`: the other end of `Box.run`, in a namespace of its own."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.agents.box import Inside, Run
from tests.agents.model import serving

SIOCSIFFLAGS, UP_AND_RUNNING = 0x8914, 0x41


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", UP_AND_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def without_room(folder: Path) -> None:
    """Put what is in a folder on a file system of its own, and fill that."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder.with_name(folder.name + ".kept")
    shutil.copytree(folder, kept)
    size = sum(each.stat().st_size for each in kept.rglob("*") if each.is_file()) + 200_000
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    try:
        with (folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
    except OSError:
        return


@contextmanager
def running(command: list[str], inside: Inside) -> Iterator[None]:
    with subprocess.Popen(
        command,
        cwd=inside.beside_in or inside.directory,
        env=inside.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            assert process.stdout is not None
            said = iter(process.stdout.readline, b"")
            assert any(b"serves at" in line for line in said), f"{command} ended at once"
            if inside.stopped:
                process.send_signal(signal.SIGSTOP)
            if inside.killed:
                process.kill()
            yield
        finally:
            process.kill()


def run(inside: Inside) -> Run:
    if inside.alone:
        loopback_up()
    for folder in inside.full:
        without_room(Path(folder))
    with ExitStack() as stack:
        model = stack.enter_context(serving(inside.steps, inside.port))
        for command in inside.beside:
            stack.enter_context(running(list(command), inside))
        if inside.token:
            inside.env["REASONBANK_TOKEN"] = Path(inside.token).read_text().strip()
        with subprocess.Popen(
            inside.command,
            cwd=inside.directory,
            env=inside.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as agent:
            try:
                out, err = agent.communicate(timeout=inside.limit)
            except subprocess.TimeoutExpired:
                os.killpg(agent.pid, signal.SIGKILL)
                out, err = agent.communicate()
                err += b"\n[killed: past its limit]"
    return Run(
        code=agent.returncode,
        out=out.decode(errors="replace"),
        err=err.decode(errors="replace"),
        requests=model.requests,
    )


if __name__ == "__main__":
    answer = pickle.dumps(run(pickle.loads(sys.stdin.buffer.read())))
    sys.stdout.buffer.write(answer)
