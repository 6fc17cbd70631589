"""The filter of system calls of a box, as a program for the kernel.

What a command needs is not known beforehand, so it is a list of what none needs: ways to other
processes, mounts, namespaces, keys, and the parts of the kernel where most holes were found.
"""

from __future__ import annotations

import errno
import struct

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
"""Added to the numbers of a second set of calls, which the filter would not know."""
UNIX = 1
NEW_NAMESPACES = 0x7E020000
TERMINAL = (0x5412, 0x541C, 0x541D, 0x5423)
"""TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: typing into a terminal, and taking it over."""

# (x86_64, aarch64); None where there is no such call.
SOCKET, SOCKETPAIR, CLONE, CLONE3, IOCTL = (41, 198), (53, 199), (56, 220), (435, 435), (16, 29)
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "open_tree_attr": (467, 467), "unshare": (272, 97), "setns": (308, 268),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "execveat": (322, 281),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "syslog": (103, 116), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    "vhangup": (153, 58), "personality": (135, 92), "modify_ldt": (154, None),
    "fanotify_init": (300, 262), "uselib": (134, None), "ustat": (136, None),
    "sysfs": (139, None), "_sysctl": (156, None), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip

# Instructions of the kernel's filter machine, and what it answers.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW, _ERROR = 0x80000000, 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_NOT_PERMITTED, _UNKNOWN = _ERROR | errno.EPERM, _ERROR | 38


def program(machine: str) -> bytes | None:
    """The filter for a machine of that kind; None where the numbers are not known."""
    if machine not in ARCHITECTURES:
        return None
    which = list(ARCHITECTURES).index(machine)
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, ARCHITECTURES[machine], yes=1),
        _step(_ANSWER, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, X32, no=1),
        _step(_ANSWER, _NOT_PERMITTED),
        # Its arguments are in memory, which no filter can read; who asks falls back to clone.
        *_when(CLONE3[which], [_step(_ANSWER, _UNKNOWN)]),
    ]
    for numbers in REFUSED.values():
        if (number := numbers[which]) is not None:
            steps += _when(number, [_step(_ANSWER, _NOT_PERMITTED)])
    for numbers in (SOCKET, SOCKETPAIR):
        steps += _when(
            numbers[which],
            [_argument(0), _step(_EQUAL, UNIX, yes=1), _refusal(), _step(_ANSWER, _ALLOW)],
        )
    steps += _when(
        CLONE[which],
        [_argument(0), _step(_ANY_BIT, NEW_NAMESPACES, no=1), _refusal(), _step(_ANSWER, _ALLOW)],
    )
    typing = [step for code in TERMINAL for step in (_step(_EQUAL, code, no=1), _refusal())]
    steps += _when(IOCTL[which], [_argument(1), *typing, _step(_ANSWER, _ALLOW)])
    return b"".join([*steps, _step(_ANSWER, _ALLOW)])


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """``yes`` and ``no`` are how many steps are left out after a test."""
    return struct.pack("=HBBI", code, yes, no, value)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, number, no=len(then)), *then]


def _argument(n: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * n)


def _refusal() -> bytes:
    return _step(_ANSWER, _NOT_PERMITTED)
