"""Runs one command in a box; a program of its own, which imports nothing of ours.

It is told on standard input what to run, and tells on a pipe, one JSON object a line, whether
the box is closed (``box``, ``why``) and what it had to stop (``stopped``). A closed box has a
root of its own, with the system's folders read-only and a small file system in memory as all
that can be written; no network, no other process, no capability, and a filter of system calls.
Where one part of it cannot be had, nothing is run.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from typing import Any, NoReturn

REFUSED = 125
"""The exit code when the command was not run; the pipe says why."""
STOPPED = 124

NEW_USER, NEW_NET, NEW_PID, NEW_MOUNTS = 0x10000000, 0x40000000, 0x20000000, 0x00020000
NEW_IPC, NEW_UTS, NEW_CGROUP = 0x08000000, 0x04000000, 0x02000000
NAMESPACES = NEW_USER | NEW_NET | NEW_PID | NEW_MOUNTS | NEW_IPC | NEW_UTS | NEW_CGROUP
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPSET = {"x86_64": 126, "aarch64": 91}
SET_PDEATHSIG, SET_DUMPABLE, SET_SECCOMP, CAPBSET_DROP, SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
SECCOMP_FILTER, CAPABILITY_VERSION, INVALID = 2, 0x20080522, 22
CAPABILITIES = 64
INSIDE, NOBODY = 1000, 65534
"""Who the command is inside, and who that is outside where we are root."""
DEVICES = ("null", "zero", "full", "random", "urandom")
PAUSE = 0.02
RESERVED = 8
OPEN_FILES = 256
MB = 1 << 20
LINUX = sys.platform == "linux"

libc = ctypes.CDLL(None, use_errno=True)
held: set[str] = set()


class Missing(Exception):
    """A part of the box that cannot be had."""


def main() -> NoReturn:
    told = int(sys.argv[1])
    # Whatever the command starts must not hold the pipe open, or write to it.
    os.set_inheritable(told, False)
    spec = json.loads(sys.stdin.buffer.read())
    _end_with_parent()
    if not spec["boxed"]:
        _tell(told, {"box": False, "why": "not asked for"})
        _furnish(spec, spec["folder"])
        _run(spec, address_space=spec["memory_mb"])
    try:
        if not LINUX:
            raise Missing("namespaces: this system has none")
        # Root has no limit on processes: whoever counts them must come before them.
        _first_in_line()
        _isolate()
    except Missing as missing:
        _refuse(told, missing)
    # Blocked until there is somebody to end.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    first = os.fork()
    if first == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _end_with_parent()
        try:
            _keep(spec, told)
        except Missing as missing:
            _refuse(told, missing)
    # Whoever waits for us then knows that all of the box is gone.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os._exit(_code(os.waitpid(first, 0)[1]))


def _tell(told: int, what: dict[str, Any]) -> None:
    os.write(told, json.dumps(what).encode() + b"\n")


def _refuse(told: int, missing: Missing) -> NoReturn:
    _tell(told, {"box": False, "why": str(missing)})
    os._exit(REFUSED)


def _first_in_line() -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return  # Only root may; the others have a limit on processes that holds.


def _must(part: str, result: int) -> None:
    if result != 0:
        raise Missing(f"{part}: {os.strerror(ctypes.get_errno())}")


# Namespaces


def _isolate() -> None:
    """Leave all that is shared with the system, under a user of our own.

    Only somebody who stays outside may lend a user other than oneself; root needs that, so
    that the command is not root.
    """
    root = os.geteuid() == 0
    asked, ask = os.pipe()
    heard, answer = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(ask)
        _lend(asked, answer)
    os.close(answer)
    group = os.getgid()
    user = os.getuid()
    _must("namespaces (unshare)", libc.unshare(NAMESPACES))
    if root:
        os.write(ask, b"now")
        if said := os.read(heard, 200):
            raise Missing(f"an unprivileged user: {said.decode()}")
    else:
        os.write(ask, b"no!")
        _map("self", f"{INSIDE} {user} 1", f"{INSIDE} {group} 1", groups="deny")
    os.waitpid(helper, 0)
    for end in (asked, ask, heard):
        os.close(end)
    socket.sethostname("box")


def _lend(asked: int, answer: int) -> NoReturn:
    _end_with_parent()
    outer = os.getppid()
    if os.read(asked, 3) == b"now":
        try:
            lent = f"0 0 1\n{INSIDE} {NOBODY} 1"
            _map(str(outer), lent, lent, groups="allow")
        except Missing as missing:
            os.write(answer, str(missing).encode())
    os._exit(0)


def _map(process: str, users: str, groups_map: str, *, groups: str) -> None:
    try:
        for name, text in (("setgroups", groups), ("uid_map", users), ("gid_map", groups_map)):
            with open(f"/proc/{process}/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise Missing(f"user namespace: {error.strerror}") from None


def _keep(spec: dict[str, Any], told: int) -> NoReturn:
    """The first process of the box: when it ends, the kernel ends all the others."""
    machine = os.uname().machine
    if machine not in PIVOT_ROOT or not spec["filter"]:
        raise Missing(f"a filter of system calls: there is none for {machine}")
    try:
        _build(spec, machine)
    except OSError as error:
        raise Missing(f"file system: {error}") from None
    # A box that could not be closed is found before the command, by one that does nothing.
    _try(spec)
    _tell(told, {"box": True, "why": ""})
    if not spec["command"]:
        os._exit(0)
    os.chdir("/task")
    command = os.fork()
    if command == 0:
        # What is really used is watched; some runtimes reserve much more than that.
        _run(spec, address_space=spec["memory_mb"] * RESERVED)
    libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)
    _without_capabilities(machine)
    # From here on: how long it took to build the box is not the command's fault.
    last = time.monotonic() + spec["limit"]
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == command:
            os._exit(_code(status))
        if ended == 0:
            if excess := _excess(spec, last):
                _tell(told, {"stopped": excess})
                os._exit(STOPPED)
            time.sleep(PAUSE)


def _try(spec: dict[str, Any]) -> None:
    heard, say = os.pipe()
    trial = os.fork()
    if trial == 0:
        try:
            _confine(spec)
        except Missing as missing:
            os.write(say, str(missing).encode())
        os._exit(0)
    os.close(say)
    said = os.read(heard, 500)
    os.waitpid(trial, 0)
    os.close(heard)
    if said:
        raise Missing(said.decode())


# Files


def _build(spec: dict[str, Any], machine: str) -> None:
    """A new root in memory, and the old one out of reach."""
    new = spec["folder"]
    _must("mounts (private)", libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    _tmpfs(new, "size=64m,mode=0755", MS_NODEV | MS_NOSUID)
    for path, target in spec["links"].items():
        _place(new + path, folder=True, only_above=True)
        os.symlink(target, new + path)
    _writable(spec, new)
    for source, path in spec["binds"]:
        _hold(new, path)
        _bind(source, new + path)
        _restrict(new + path, RDONLY | NOSUID | NODEV)
    for name in DEVICES:
        _bind(f"/dev/{name}", f"{new}/dev/{name}")
        _restrict(f"{new}/dev/{name}", RDONLY | NOSUID | NOEXEC)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{new}/dev/{name}")
    for path, text in spec["etc"].items():
        _write(new + path, base64.b64decode(text))
    _furnish(spec, new)
    _own(spec, new)
    os.makedirs(f"{new}/proc")
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    _must("/proc", libc.mount(b"proc", f"{new}/proc".encode(), b"proc", flags, b"subset=pid"))
    os.chdir(new)
    _must("pivot_root", libc.syscall(PIVOT_ROOT[machine], b".", b"."))
    _must("the old root (umount)", libc.umount2(b".", DETACH))
    os.chdir("/")
    _restrict("/", RDONLY | NOSUID | NODEV, deep=False)


def _tmpfs(path: str, options: str, flags: int) -> None:
    _must(f"tmpfs {path}",
          libc.mount(b"tmpfs", path.encode(), b"tmpfs", flags, options.encode()))  # fmt: skip


def _place(path: str, *, folder: bool, only_above: bool = False) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if only_above or os.path.lexists(path):
        return
    if folder:
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _bind(source: str, path: str, *, folder: bool = False) -> None:
    _place(path, folder=folder or os.path.isdir(source))
    _must(f"bind {source}",
          libc.mount(source.encode(), path.encode(), None, MS_BIND | MS_REC, None))  # fmt: skip


def _hold(new: str, path: str) -> None:
    """Where a folder above can be written, keep it from being moved away."""
    parts = path.split("/")[1:-1]
    for n in range(2, len(parts) + 1):
        above = "/".join([new, *parts[:n]])
        if parts[0] in ("tmp", "task") and above not in held:
            held.add(above)
            _bind(above, above, folder=True)


def _restrict(path: str, attributes: int, *, deep: bool = True) -> None:
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = AT_RECURSIVE if deep else 0
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(wanted), 32)
    _must("read-only mounts (mount_setattr, Linux 5.12)", done)


def _writable(spec: dict[str, Any], new: str) -> None:
    """One file system in memory, so that its size bounds all that can be written."""
    room = f"{new}/room"
    os.mkdir(room)
    inodes = 1024 + 256 * spec["disk_mb"]
    _tmpfs(room, f"size={spec['disk_mb']}m,nr_inodes={inodes},mode=0755", MS_NODEV | MS_NOSUID)
    for name, mode, path in (
        ("task", 0o700, "/task"), ("tmp", 0o1777, "/tmp"), ("shm", 0o1777, "/dev/shm"),  # nosec B108  # in the box
    ):  # fmt: skip
        os.mkdir(f"{room}/{name}")
        os.chmod(f"{room}/{name}", mode)
        _bind(f"{room}/{name}", new + path)
    _must("the room (umount)", libc.umount2(room.encode(), DETACH))
    os.rmdir(room)
    for name, text in spec["files"].items():
        _write(f"{new}/task/{name}", text.encode())
    if os.geteuid() == 0:
        for folder, _, files in os.walk(f"{new}/task"):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, INSIDE, INSIDE)


def _own(spec: dict[str, Any], new: str) -> None:
    """The verifier's files: read-only, in folders that cannot be moved away or hold bytecode."""
    kept, work = f"{new}/run/reasonbank/files", f"{new}/task"
    nothing = f"{new}/run/reasonbank/nothing"
    os.makedirs(nothing)
    folders: dict[str, None] = {}
    for name, text in spec["own"].items():
        _write(f"{kept}/{name}", text.encode())
        parts = name.split("/")[:-1]
        for n in range(len(parts) + 1):
            folders["/".join(parts[:n])] = None
    for folder in sorted(folders):
        path = f"{work}/{folder}" if folder else work
        os.makedirs(path, exist_ok=True)
        if folder:
            _bind(path, path)
            if os.geteuid() == 0:
                os.chown(path, INSIDE, INSIDE)
        _bind(nothing, f"{path}/__pycache__")
        _restrict(f"{path}/__pycache__", RDONLY | NOSUID | NODEV)
    for name in spec["own"]:
        _bind(f"{kept}/{name}", f"{work}/{name}")
        _restrict(f"{work}/{name}", RDONLY | NOSUID | NODEV)


def _furnish(spec: dict[str, Any], root: str) -> None:
    """Our programs; without a box the files too, as they are."""
    for name, text in spec["programs"].items():
        _write(f"{root}/run/reasonbank/{name}", text.encode())
        os.chmod(f"{root}/run/reasonbank/{name}", 0o755)  # nosec B103  # in the box
    if spec["boxed"]:
        return
    for name, text in {**spec["files"], **spec["own"]}.items():
        _write(f"{root}/task/{name}", text.encode())
    for name in ("task", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    os.chdir(f"{root}/task")


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)


# The command


def _excess(spec: dict[str, Any], last: float) -> str | None:
    """What all processes of the box use together; each has its own limit besides."""
    running = [name for name in os.listdir("/proc") if name.isdigit()]
    if len(running) > spec["processes"] + 1:
        return f"it started more than {spec['processes']} processes"
    if time.monotonic() > last:
        return f"it took longer than {spec['limit']:g} seconds"
    used = 0
    for name in running:
        try:
            with open(f"/proc/{name}/statm", "rb") as file:
                used += int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            continue  # It has just ended.
    if used > spec["memory_mb"] * MB:
        return f"it used more than {spec['memory_mb']} MB of memory"
    return None


def _run(spec: dict[str, Any], *, address_space: int) -> NoReturn:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.closerange(3, 4096)
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, spec["seconds"] + 1),
        (resource.RLIMIT_FSIZE, spec["disk_mb"] * MB),
        (resource.RLIMIT_AS, address_space * MB),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, spec["processes"] + spec["running"]),
    ):
        _, most = resource.getrlimit(limit)
        least = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(limit, (least, least))
        except (OSError, ValueError):
            continue  # macOS knows no limit of the address space.
    if spec["boxed"]:
        try:
            _confine(spec)
        except Missing as missing:
            os.write(2, f"{missing}\n".encode())
            os._exit(REFUSED)
    elif LINUX:
        libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        os.execve(spec["command"][0], spec["command"], spec["environment"])  # nosec B606  # the box is closed
    except OSError as error:
        os.write(2, f"{spec['command'][0]}: {error.strerror}\n".encode())
        os._exit(127)


def _confine(spec: dict[str, Any]) -> None:
    """Nobody, without a capability and without a way to any; then the filter."""
    for capability in range(CAPABILITIES):
        # Those that the kernel does not know are refused as invalid.
        if libc.prctl(CAPBSET_DROP, capability, 0, 0, 0) and ctypes.get_errno() != INVALID:
            raise Missing(f"capabilities: {os.strerror(ctypes.get_errno())}")
    if os.geteuid() == 0:
        try:
            os.setgroups([])
            os.setresgid(INSIDE, INSIDE, INSIDE)
            os.setresuid(INSIDE, INSIDE, INSIDE)
        except OSError as error:
            raise Missing(f"an unprivileged user: {error.strerror}") from None
    _without_capabilities(os.uname().machine)
    _must("no new privileges", libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    program = base64.b64decode(spec["filter"])
    held = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    filter = Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    _must("a filter of system calls (seccomp)",
          libc.prctl(SET_SECCOMP, SECCOMP_FILTER, ctypes.byref(filter), 0, 0))  # fmt: skip


def _without_capabilities(machine: str) -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _must("capabilities",
          libc.syscall(CAPSET[machine], ctypes.byref(header), ctypes.byref(none)))  # fmt: skip


def _end_with_parent() -> None:
    if LINUX:
        libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
