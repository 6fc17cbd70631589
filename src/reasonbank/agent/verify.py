"""Verifiers: commands that the operator allows by name, run on a solution inside a box.

The name comes from a caller; the command comes from the settings, or from the program that
uses the library, and from nowhere else.
"""

from __future__ import annotations

import base64
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process

from reasonbank.agent import inside, sandbox, seccomp
from reasonbank.agent.command import Command, command_of
from reasonbank.agent.files import UnusableFiles, files_of
from reasonbank.agent.seen import seen
from reasonbank.errors import InvalidInput, InvalidSetting, Refused
from reasonbank.llm.excerpt import excerpt
from reasonbank.settings import Sandbox, Settings

SHOWN = 4_000
"""Characters of the output that a model gets to read."""
OURS = 3
BUILDING, ENDING = 30.0, 10.0
"""Seconds for the box itself, on a machine that has other things to do."""


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
    a solution cannot replace. Of a Python command ``files`` (or what it names by a full path)
    are the checks: what they import of a solution runs in another process, and answers with
    data. Python code that is all the solution's has passed if it came to its end.
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
        ended = await self._run(written, command_of(self._program(), self.command))
        return Verification(
            passed=ended.passed,
            report=ended.report(),
            seconds=time.monotonic() - started,
            isolated=ended.isolated,
        )

    async def check(self) -> None:
        """Find out before any work is paid for whether the command can be run at all."""
        command = command_of(self._program(), self.command)
        await self._run({}, replace(command, words=()))

    def _program(self) -> str:
        program = shutil.which(self.command[0])
        if program is None:
            raise InvalidSetting(
                f"verify.{self.name}", f"there is no program {self.command[0]!r} on the PATH"
            )
        return os.path.abspath(program)

    async def _run(self, files: Mapping[str, str], command: Command) -> _Ended:
        """Without words the box is only tried."""
        ended = await self._run_once(files, command, boxed=True)
        if ended.isolated:
            return ended
        if self.limits.network != "allow":
            raise Refused(
                f"verifier {self.name}: a closed box cannot be had here, so that files and "
                f"network could not be cut off ({ended.why}). Allow what is missing (Linux 5.12 "
                "or later, user namespaces, seccomp), or run it on a machine that has it; "
                "sandbox.network = allow runs it without a box"
            )
        if not command.words:
            return ended
        return await self._run_once(files, command, boxed=False)

    async def _run_once(self, files: Mapping[str, str], command: Command, *, boxed: bool) -> _Ended:
        folder = await anyio.to_thread.run_sync(tempfile.mkdtemp, None, "reasonbank-")
        try:
            spec = await anyio.to_thread.run_sync(self._spec, folder, files, command, boxed)
            ended = await self._started(spec)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(shutil.rmtree, folder, True)
        ended.folder = folder
        return ended

    def _spec(
        self, folder: str, files: Mapping[str, str], command: Command, boxed: bool
    ) -> dict[str, Any]:
        limits = self.limits
        root = "" if boxed else folder
        sight = seen(command.programs, command.checks)
        program = seccomp.program(os.uname().machine) if boxed else None
        config = {"task": f"{root}/task", "own": list(self.files), "checks": list(command.checks)}
        programs = _programs() | {"config.json": json.dumps(config)}
        path = None
        if boxed:
            programs |= command.shims()
            path = f"/run/reasonbank/bin:{sight.path}"
        return {
            "boxed": boxed,
            "command": command.inside(root),
            "folder": folder,
            "files": dict(files),
            "own": dict(self.files),
            "programs": programs,
            "binds": sight.binds,
            "links": sight.links,
            "etc": sight.etc,
            "filter": base64.b64encode(program).decode() if program else "",
            "environment": _environment(root, path),
            "seconds": max(1, round(limits.seconds)),
            "limit": limits.seconds,
            "memory_mb": limits.memory_mb,
            "disk_mb": limits.disk_mb,
            # Those that we start around a Python command are not the command's.
            "processes": limits.processes + (OURS if command.python else 0),
            "running": _running(boxed),
        }

    async def _started(self, spec: dict[str, Any]) -> _Ended:
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
            ended = await _watched(
                process, json.dumps(spec).encode(), self.limits,
                patience=BUILDING if spec["boxed"] else 0.0,
            )  # fmt: skip
            # All that could write to the pipe has ended.
            os.set_blocking(heard, False)
            with suppress(BlockingIOError):
                ended.hear(os.read(heard, 65_536))
            if ended.why is None:
                # Stopped before it began, the command has seen nothing.
                ended.isolated = ended.stopped is not None
                ended.why = f"the launcher ended with {ended.code}: {ended.output[-300:]!r}"
        finally:
            os.close(heard)
            if tell >= 0:
                os.close(tell)
        return ended


@dataclass(slots=True)
class _Ended:
    limits: Sandbox
    code: int | None = None
    output: bytes = b""
    stopped: str | None = None
    isolated: bool = False
    why: str | None = None
    """Why there is no box; None as long as nobody has said."""
    folder: str = ""

    @property
    def passed(self) -> bool:
        return self.code == 0 and self.stopped is None

    def hear(self, lines: bytes) -> None:
        for line in lines.splitlines():
            told: dict[str, Any] = json.loads(line)
            self.isolated = told.get("box", self.isolated)
            self.why = told.get("why", self.why)
            self.stopped = told.get("stopped", self.stopped)

    def report(self) -> str:
        said = self.output.decode("utf-8", "replace").replace("\0", "�").replace(self.folder, "")
        head = f"Stopped: {self.stopped}." if self.stopped else f"Exit code {self.code}."
        if not self.isolated:
            head = f"Run without a box. {head}"
        return f"{head}\n{excerpt(said.strip(), SHOWN)}".strip()


async def _watched(process: Process, spec: bytes, limits: Sandbox, *, patience: float) -> _Ended:
    ended = _Ended(limits)
    assert process.stdin is not None and process.stdout is not None
    most = limits.output_kb * 1024
    try:
        with anyio.move_on_after(limits.seconds + patience) as clock:
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
            if patience and process.returncode is None:
                # It ends its box and waits until all in it is gone.
                with suppress(ProcessLookupError):
                    process.terminate()
                with anyio.move_on_after(ENDING):
                    await process.wait()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()
    ended.code = process.returncode
    return ended


def _environment(root: str, path: str | None) -> dict[str, str]:
    """Nothing of ours: keys stay where they are."""
    home = f"{root}/tmp"  # nosec B108  # in the box
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return kept | ({} if path is None else {"PATH": path}) | {
        "HOME": home, "TMPDIR": home, "PWD": f"{root}/task",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1",
    }  # fmt: skip


def _programs() -> dict[str, str]:
    """What runs Python commands inside, by the name that it has there."""
    here = Path(inside.__file__).parent
    found = {f"reasonbank_inside/{path.name}": path.read_text("utf-8")
             for path in here.glob("*.py") if path.name != "boot.py"}  # fmt: skip
    return found | {"boot.py": (here / "boot.py").read_text("utf-8")}


def _running(boxed: bool) -> int:
    """Tasks of the user that the command is: the limit on their number counts them too."""
    user = sandbox.NOBODY if boxed and os.geteuid() == 0 else os.getuid()
    count = 0
    with suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if entry.stat().st_uid == user:
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
