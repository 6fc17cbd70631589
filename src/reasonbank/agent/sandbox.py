"""Runs one command in a box; a program of its own, which imports nothing of ours.

It is told on standard input what to run, and tells on a pipe, one JSON object a line, how
well the box is closed (``box``) and what it had to stop (``stopped``). Where the system has
namespaces, the command sees no network and no other process, may write nowhere but into a
small file system in memory, and nothing that it started outlives it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from typing import Any, NoReturn

REFUSED = 125
"""The exit code when the command was not run; the pipe says why."""
STOPPED = 124

NEW_USER, NEW_NET, NEW_PID, NEW_MOUNTS, NEW_IPC = (
    0x10000000, 0x40000000, 0x20000000, 0x00020000, 0x08000000,
)  # fmt: skip
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY = 442, -100, 0x8000, 1
SET_PDEATHSIG, CAPBSET_DROP, SET_NO_NEW_PRIVS = 1, 24, 38
CAPABILITIES = 64
PAUSE = 0.02
RESERVED = 8
MB = 1 << 20


def main() -> NoReturn:
    told = int(sys.argv[1])
    # Whatever the command starts must not hold the pipe open, or write to it.
    os.set_inheritable(told, False)
    spec = json.loads(sys.stdin.buffer.read())
    try:
        # Root has no limit on processes: whoever counts them must come before them.
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass
    _end_with_parent()
    box = _isolated() if sys.platform == "linux" else ["no namespaces on this system"]
    if box and not spec["open_network"]:
        _tell(told, {"box": False, "why": box[0]})
        os._exit(REFUSED)
    _tell(told, {"box": not box, "why": box[0] if box else ""})
    if not spec["command"]:
        os._exit(0)
    if box:
        _furnish(spec)
        _run(spec, address_space=spec["memory_mb"])
    first = os.fork()
    if first == 0:
        _end_with_parent()
        _keep(spec, told)
    os._exit(_code(os.waitpid(first, 0)[1]))


def _tell(told: int, what: dict[str, Any]) -> None:
    os.write(told, json.dumps(what).encode() + b"\n")


def _isolated() -> list[str]:
    """Leave the network, the processes and the mounts of the system; what failed, if any did."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER | NEW_NET | NEW_PID | NEW_MOUNTS | NEW_IPC):
        return [f"unshare: {os.strerror(ctypes.get_errno())}"]
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        return [f"user namespace: {error.strerror}"]
    return []


def _keep(spec: dict[str, Any], told: int) -> NoReturn:
    """The first process of the box: when it ends, the kernel ends all the others."""
    folder = spec["folder"].encode()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    # Some containers forbid this; then the number of processes has its limit only.
    own = libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) == 0
    attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY, 0, 0, 0)
    size = f"size={spec['disk_mb']}m,mode=0700".encode()
    if libc.syscall(
        MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, ctypes.byref(attributes), 32
    ) or libc.mount(b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV, size):
        _tell(told, {"files": f"file system: {os.strerror(ctypes.get_errno())}"})
    _furnish(spec)
    command = os.fork()
    if command == 0:
        # What is really used is watched; some runtimes reserve much more than that.
        _run(spec, address_space=spec["memory_mb"] * (RESERVED if own else 1))
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == command:
            os._exit(_code(status))
        if ended == 0:
            if own and (excess := _excess(spec)):
                _tell(told, {"stopped": excess})
                os._exit(STOPPED)
            time.sleep(PAUSE)


def _excess(spec: dict[str, Any]) -> str | None:
    """What all processes of the box use together; each has its own limit besides."""
    running = [name for name in os.listdir("/proc") if name.isdigit()]
    if len(running) > spec["processes"] + 1:
        return f"it started more than {spec['processes']} processes"
    used = 0
    for name in running:
        try:
            with open(f"/proc/{name}/statm", encoding="ascii") as file:
                used += int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            continue  # It has just ended.
    if used > spec["memory_mb"] * MB:
        return f"it used more than {spec['memory_mb']} MB of memory"
    return None


def _furnish(spec: dict[str, Any]) -> None:
    """The command works in ``work``; its home and temporary files are beside it."""
    home = os.path.join(spec["folder"], "home")
    work = os.path.join(spec["folder"], "work")
    os.makedirs(home, exist_ok=True)
    for name, text in spec["files"].items():
        path = os.path.join(work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(work, exist_ok=True)
    os.chdir(work)
    spec["environment"] |= {"HOME": home, "TMPDIR": home, "PWD": work}


def _run(spec: dict[str, Any], *, address_space: int) -> NoReturn:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, spec["seconds"] + 1),
        (resource.RLIMIT_FSIZE, spec["disk_mb"] * MB),
        (resource.RLIMIT_AS, address_space * MB),
        (resource.RLIMIT_NPROC, spec["processes"] + spec["running"]),
    ):
        _, most = resource.getrlimit(limit)
        least = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(limit, (least, least))
        except (OSError, ValueError):
            continue  # macOS knows no limit of the address space.
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        # Root of its own namespace could make the file system writable again.
        for capability in range(CAPABILITIES):
            libc.prctl(CAPBSET_DROP, capability, 0, 0, 0)
    try:
        os.execve(spec["command"][0], spec["command"], spec["environment"])  # noqa: S606
    except OSError as error:
        os.write(2, f"{spec['command'][0]}: {error.strerror}\n".encode())
        os._exit(127)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
