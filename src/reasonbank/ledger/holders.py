"""Who holds a job: a name by which every process of the same machine can tell that it is gone.

    machine / process / when it started / random

The machine is this boot of this kernel, and the namespace of its process numbers, as a hash.
A number is given again to another process, so its start belongs to the name; another machine,
or a container with numbers of its own, knows nothing about it. Where Linux does not tell these
things, and of names that are not of this form, nobody is known to be gone, and a lease ends
by time alone.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache

from reasonbank.model import new_id


def name() -> str:
    """A name for one holder in this process; no two are the same."""
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_stat(pid)[1]}/{new_id()[-8:]}"


def is_gone(holder: str) -> bool:
    """Whether the process of this name has provably ended."""
    machine, pid, started, *_ = f"{holder}///".split("/")
    if not machine or not started or machine != _machine() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # It is there, and somebody else's.
    state, start = _stat(int(pid))
    return bool(start) and (start != started or state in "ZX")


def pid_here(holder: str) -> int | None:
    """The number of its process, if that is one of this machine."""
    machine, pid, *_ = f"{holder}//".split("/")
    return int(pid) if machine and machine == _machine() and pid.isdecimal() else None


@cache
def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            known = file.read() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def _stat(pid: int) -> tuple[str, str]:
    """A process's state and when it started; empty where that cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            told = file.read().decode("latin-1")
    except OSError:
        return "", ""
    # The program's name comes first, in brackets, and may hold anything.
    fields = told.rpartition(")")[2].split()
    return fields[0], fields[19]
