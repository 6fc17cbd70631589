"""Verifiers: commands that the operator allows by name, run on a solution inside a box.

The name comes from a caller; the command comes from the settings, or from the program that
uses the library, and from nowhere else.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process

from reasonbank.agent import sandbox
from reasonbank.agent.files import UnusableFiles, files_of
from reasonbank.errors import InvalidInput, InvalidSetting, Refused
from reasonbank.llm.excerpt import excerpt
from reasonbank.settings import Sandbox, Settings

SHOWN = 4_000
"""Characters of the output that a model gets to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    passed: bool
    report: str
    """The command's output, or why it was stopped: what the next attempt should know."""
    seconds: float
    isolated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """A command that ends with 0 when a solution is right.

    It finds the solution's files in its working directory, and ``files`` beside them, which
    a solution cannot replace.
    """

    name: str
    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    limits: Sandbox = field(default_factory=Sandbox)

    async def verify(self, solution: str) -> Verification:
        """A solution that cannot be run is one that failed; ``Refused`` is the box's fault."""
        try:
            written = files_of(solution)
            if taken := written.keys() & self.files.keys():
                raise UnusableFiles(f"{min(taken)!r} is the verifier's own")
        except UnusableFiles as error:
            return Verification(
                passed=False, report=f"The files were refused: {error}", seconds=0.0
            )
        started = time.monotonic()
        folder = await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "reasonbank-")
        try:
            command = [self._program(), *self.command[1:]]
            ended = await self._run(folder, {**written, **self.files}, command)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(shutil.rmtree, folder, True)
        return Verification(
            passed=ended.passed,
            report=ended.report(folder),
            seconds=time.monotonic() - started,
            isolated=ended.isolated,
        )

    async def check(self) -> None:
        """Find out before any work is paid for whether the command can be run at all."""
        self._program()
        folder = await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "reasonbank-")
        try:
            await self._run(folder, {}, [])
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(shutil.rmtree, folder, True)

    def _program(self) -> str:
        program = shutil.which(self.command[0])
        if program is None:
            raise InvalidSetting(
                f"verify.{self.name}", f"there is no program {self.command[0]!r} on the PATH"
            )
        return program

    async def _run(self, folder: str, files: Mapping[str, str], command: list[str]) -> _Ended:
        """Without a command the box is only tried."""
        limits = self.limits
        spec = {
            "command": command,
            "folder": folder,
            "files": dict(files),
            "environment": _environment(),
            "seconds": max(1, round(limits.seconds)),
            "memory_mb": limits.memory_mb,
            "disk_mb": limits.disk_mb,
            "processes": limits.processes,
            "running": _running(),
            "open_network": limits.network == "allow",
        }
        heard, tell = os.pipe()
        try:
            # Whoever is cancelled while it starts would leave it running, with nobody to end it.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [sys.executable, "-I", "-S", sandbox.__file__, str(tell)],
                    stdin=-1, stdout=-1, stderr=-2, pass_fds=(tell,), start_new_session=True,
                )  # fmt: skip
            os.close(tell)
            tell = -1
            ended = await _watched(process, json.dumps(spec).encode(), limits)
            # All that could write to the pipe has ended.
            os.set_blocking(heard, False)
            with suppress(BlockingIOError):
                ended.hear(os.read(heard, 65_536))
        finally:
            os.close(heard)
            if tell >= 0:
                os.close(tell)
        if ended.code == sandbox.REFUSED and not ended.isolated:
            raise Refused(
                f"verifier {self.name}: the network could not be cut off ({ended.why}); allow "
                "user namespaces, or set sandbox.network = allow to run it nevertheless"
            )
        return ended


@dataclass(slots=True)
class _Ended:
    limits: Sandbox
    code: int | None = None
    output: bytes = b""
    stopped: str | None = None
    isolated: bool = False
    why: str = ""

    @property
    def passed(self) -> bool:
        return self.code == 0 and self.stopped is None

    def hear(self, lines: bytes) -> None:
        for line in lines.splitlines():
            told: dict[str, Any] = json.loads(line)
            self.isolated = told.get("box", self.isolated)
            self.why = told.get("why", self.why)
            self.stopped = told.get("stopped", self.stopped)
            if "files" in told:
                self.isolated, self.why = False, told["files"]

    def report(self, folder: str) -> str:
        said = self.output.decode("utf-8", "replace").replace("\0", "�").replace(folder, "")
        head = f"Stopped: {self.stopped}." if self.stopped else f"Exit code {self.code}."
        return f"{head}\n{excerpt(said.strip(), SHOWN)}".strip()


async def _watched(process: Process, spec: bytes, limits: Sandbox) -> _Ended:
    ended = _Ended(limits)
    assert process.stdin is not None and process.stdout is not None
    most = limits.output_kb * 1024
    try:
        with anyio.move_on_after(limits.seconds) as clock:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.send(spec)
                await process.stdin.aclose()
            async for chunk in process.stdout:
                # One more than allowed is enough to know; the rest is never read.
                ended.output = (ended.output + chunk)[: most + 1]
                if len(ended.output) > most:
                    ended.stopped = f"it printed more than {limits.output_kb} KB"
                    break
            else:
                await process.wait()
        if clock.cancelled_caught:
            ended.stopped = f"it took longer than {limits.seconds:g} seconds"
    finally:
        with anyio.CancelScope(shield=True):
            # The whole group, and with its first process all that is in the box.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()
    ended.code = process.returncode
    return ended


def _environment() -> dict[str, str]:
    """Nothing of ours: keys stay where they are."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1"}


def _running() -> int:
    """Tasks of this user: the limit on their number counts them too."""
    count = 0
    with suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if entry.stat().st_uid == os.getuid():
                        count += len(os.listdir(entry / "task"))
    return count


def verifier(settings: Settings, name: str) -> Verifier:
    """The verifier of that name, if the operator allows one."""
    command = settings.verify.get(name) if isinstance(name, str) else None
    if command is None:
        known = ", ".join(sorted(settings.verify)) or "none"
        raise InvalidInput(
            "verify",
            f"{str(name)[:80]!r} is not a verifier; allowed by the settings, [verify]: {known}",
        )
    return Verifier(name=name, command=tuple(shlex.split(command)), limits=settings.sandbox)
