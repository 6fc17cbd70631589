"""What of the machine a box sees: what the command needs to run, and nothing else."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reasonbank.errors import Refused

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)
_PARTS = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
"""Of a folder that programs were installed in: ~/.local also has the data of others."""
_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime", "/etc/mime.types")
_MADE = {
    "/etc/passwd": "root:x:0:0:::\nuser:x:1000:1000::/tmp:\n",
    "/etc/group": "root:x:0:\nuser:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_LARGEST = 4_000_000
_HOPS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """``binds`` are (path outside, path inside), ``links`` what a name points to."""

    binds: list[tuple[str, str]] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    etc: dict[str, str] = field(default_factory=dict)
    path: str = ""


def seen(programs: Iterable[str], checks: Iterable[str]) -> Seen:
    """``programs`` are full paths of what is run, ``checks`` what the operator's command names."""
    found = Seen(etc=_etc())
    for folder in SYSTEM:
        _show(found, folder)
    folders = []
    for program in programs:
        for hop in _hops(program):
            folders += _installed(found, hop)
    for check in checks:
        _show(found, check)
    _show(found, "/etc/alternatives")
    folders += ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return Seen(
        binds=sorted(found.binds, key=lambda bind: bind[1]), links=found.links, etc=found.etc,
        path=":".join(dict.fromkeys(folders)),
    )  # fmt: skip


def named(command: Sequence[str]) -> list[str]:
    """The files and folders that a command names by their full path: its checks."""
    paths = []
    for word in command[1:]:
        path = word.partition("=")[2] if word.startswith("-") else word
        if not os.path.isabs(path) or not os.path.exists(path):
            continue
        path = os.path.normpath(path)
        if _too_much(path):
            raise Refused(
                f"the command names {path}, and a box that shows all of it hides nothing; name "
                "the folder of the checks"
            )
        paths.append(path)
    return paths


def _too_much(path: str) -> bool:
    """A folder that holds a home, or is one."""
    homes = {"/root", os.path.expanduser("~"), os.path.realpath(os.path.expanduser("~"))}
    real = os.path.realpath(path)
    return real in ("/", "/home", "/proc", "/sys", "/dev", "/run", "/var", "/etc", "/tmp") or any(  # nosec B108  # compared
        home == real or home.startswith(f"{real}/") for home in homes
    )


def _etc() -> dict[str, str]:
    files = {path: text.encode() for path, text in _MADE.items()}
    for path in _ETC:
        if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST:
            files[path] = Path(path).read_bytes()
    return {path: base64.b64encode(text).decode() for path, text in files.items()}


def _show(found: Seen, path: str) -> None:
    if not os.path.lexists(path) or path in found.links or _covered(found, path):
        return
    if os.path.islink(path) and os.path.dirname(path) == os.path.realpath(os.path.dirname(path)):
        found.links[path] = os.readlink(path)
        _show(found, os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path))))
        return
    real = os.path.realpath(path)
    if os.path.isdir(real) or os.path.isfile(real):
        found.binds.append((real, path))


def _covered(found: Seen, path: str) -> bool:
    return any(path == inside or path.startswith(f"{inside}/") for _, inside in found.binds)


def _hops(program: str) -> list[str]:
    """A program, and every link on the way to the file that it is."""
    path, hops = program, [program]
    while os.path.islink(path) and len(hops) < _HOPS:
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        hops.append(path)
    real = os.path.realpath(program)
    return list(dict.fromkeys([*hops, real]))


def _installed(found: Seen, program: str) -> list[str]:
    """Show what was installed with a program; the folder of programs that it is in."""
    folder = os.path.dirname(program)
    if any(folder == system or folder.startswith(f"{system}/") for system in SYSTEM):
        return [folder]
    if os.path.basename(folder) != "bin" or os.path.dirname(folder) == "/":
        _show(found, program)
        return [folder]
    prefix = os.path.dirname(folder)
    for part in _PARTS:
        _show(found, os.path.join(prefix, part))
    for base in _bases(prefix):
        _installed(found, base)
    return [folder]


def _bases(prefix: str) -> list[str]:
    """The interpreter that a virtual environment is made of."""
    config = Path(prefix, "pyvenv.cfg")
    if not config.is_file():
        return []
    homes = re.findall(r"(?m)^home\s*=\s*(.+?)\s*$", config.read_text("utf-8", "replace"))
    return [os.path.join(home, "python3") for home in homes]
