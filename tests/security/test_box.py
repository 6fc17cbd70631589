"""Escapes from the box of a verifier: each is tried by a program, and each is refused.

A program prints ESCAPED if it came out; whatever it prints, it must not have.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.agent.boxes import has_boxes
from tests.requirement import requirement

from reasonbank.agent import seccomp
from reasonbank.agent.verify import Verifier
from reasonbank.errors import Refused
from reasonbank.settings import Sandbox

SECRET = "the-word-" + "that-is-outside"


def run(program, *, command=None, **limits):
    verifier = Verifier(
        name="box",
        command=command or (sys.executable, "solution.py"),
        limits=Sandbox(**{"seconds": 20.0, "output_kb": 64, **limits}),
    )
    return anyio.run(verifier.verify, program)


def refused(program, **limits):
    """Where there is no box, the program is not run at all."""
    # In two parts, for the sake of errors that quote the line.
    program = program.replace("'ESCAPED'", "'ESC' 'APED'").replace('"ESCAPED"', '"ESC" "APED"')
    if not has_boxes():
        with pytest.raises(Refused):
            run(program, **limits)
        pytest.skip("this kernel gives no box; the verifier was refused")
    ended = run(program, **limits)
    assert ended.isolated
    assert "ESCAPED" not in ended.report and SECRET not in ended.report, ended.report
    return ended


# Python that comes before each program: system calls by number, and one that must fail.
CALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ARM = os.uname().machine == "aarch64"
def call(x86, arm, *given):
    result = libc.syscall(arm if ARM else x86, *given)
    if result >= 0: print("ESCAPED", x86, result)
    return result
def tried(function, *given):
    try: print("ESCAPED", function(*given))
    except (OSError, ValueError) as error: print(type(error).__name__, error)
"""

SYSTEM_CALLS = {
    "ptrace whoever started it": "call(101, 117, 16, os.getppid(), 0, 0)",
    "trace itself": "call(101, 117, 0, 0, 0, 0)",
    "read the memory of another": "call(310, 270, os.getppid(), 0, 0, 0, 0, 0)",
    "write the memory of another": "call(311, 271, os.getppid(), 0, 0, 0, 0, 0)",
    "mount a file system": "call(165, 40, b'none', b'/tmp', b'tmpfs', 0, None)",
    "mount the root anew": "call(165, 40, None, b'/', None, 32 | 4096, None)",
    "unmount": "call(166, 39, b'/proc', 2)",
    "pivot back": "call(155, 41, b'/tmp', b'/tmp')",
    "change the root": "call(161, 51, b'/tmp')",
    "a user of its own": "call(272, 97, 0x10000000)",
    "mounts of its own": "call(272, 97, 0x00020000)",
    "join a namespace": "call(308, 268, os.open('/proc/self/ns/net', 0), 0)",
    "clone into a new namespace": "call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "call(435, 435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88)",
    "new ways to mount": "for n in (428, 429, 430, 432, 433, 442): call(n, n, b'/', 0, 0, 0, 0)",
    "keys of the user": "call(250, 219, 0, -4, 1, 0, 0)",
    "leave a key": "call(248, 217, b'user', b'name', b'word', 4, -5)",
    "bpf": "call(321, 280, 0, (ctypes.c_char * 128)(), 128)",
    "counters of the kernel": "call(298, 241, (ctypes.c_char * 128)(), 0, -1, -1, 0)",
    "faults handled by itself": "call(323, 282, 1)",
    "io_uring": "call(425, 425, 8, (ctypes.c_char * 128)())",
    "a file by its handle": "call(304, 265, -100, (ctypes.c_char * 128)(), 0)",
    "the handle of a file": "call(303, 264, -100, b'/', (ctypes.c_char * 128)(),"
    " (ctypes.c_int * 1)(), 0)",
    "a module of the kernel": "call(313, 273, 0, b'', 0)",
    "another kernel": "call(246, 104, 0, 0, 0, 0)",
    "reboot": "call(169, 142, 0xfee1dead, 672274793, 0, 0)",
    "the name of the machine": "call(170, 161, b'mine', 4)",
    "the clock": "call(227, 112, 0, (ctypes.c_long * 2)(0, 0))",
    "the log of the kernel": "call(103, 116, 3, (ctypes.c_char * 4096)(), 4096)",
    "the second set of calls": "None if ARM else call(0x40000000 + 39, 0)",
    "a program in memory": "call(319, 279, b'x', 0)",
    "run a file without a name": "call(322, 281, os.open('/bin/true', 0), b'', None, None, 0x1000)",
    "shared memory of System V": "call(29, 194, 1234, 4096, 0o1666)",
    "messages of System V": "call(68, 186, 1234, 0o1666)",
    "semaphores of System V": "call(64, 190, 1234, 1, 0o1666)",
    "message queues": "call(240, 180, b'q', 0o102, 0o666, 0)",
    "the descriptors of another": "call(438, 438, os.pidfd_open(os.getppid()), 0, 0)",
    "become root": "tried(os.setuid, 0)",
    "become root's group": "tried(os.setgroups, [0])",
    "take capabilities back": "call(126, 91, (ctypes.c_uint32 * 2)(0x20080522, 0),"
    " (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0))",
    "raise a limit": "import resource\n"
    "tried(resource.setrlimit, resource.RLIMIT_NPROC, (10**6, 10**6))",
    "a device": "tried(os.mknod, '/tmp/disk', 0o60666, os.makedev(8, 0))",
    "a memory device": "tried(os.mknod, '/task/mem', 0o20666, os.makedev(1, 1))",
    "type into a terminal": "import fcntl\n"
    "[tried(fcntl.ioctl, fd, 0x5412, b'x') for fd in (0, 1, 2)]",
    "take over a terminal": "tried(os.open, '/dev/tty', os.O_RDWR)",
    "sockets of the internet": "import socket\n"
    "[tried(socket.socket, f, t) for f in (2, 10) for t in (1, 2, 3)]",
    "sockets of other kinds": "import socket\n"
    "[tried(socket.socket, f, t) for f in (16, 17, 40, 38, 15, 31) for t in (1, 2, 3)]",
}  # fmt: skip


@requirement("AGT-2")
@pytest.mark.parametrize("escape", SYSTEM_CALLS)
def test_a_call_to_the_kernel_is_refused(escape):
    ended = refused(CALLS + SYSTEM_CALLS[escape])
    assert ended.passed, f"it was tried to the end: {ended.report}"


def test_the_calls_of_32_bits_end_the_program():
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has them")
    refused(
        CALLS + "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"  # mov eax, getpid; int 0x80; ret
        "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
        "print('ESCAPED', f())"
    )


# Files


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A home with a secret and a bank, of whoever runs the verifier."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for name in (".ssh/id", "bank.db", "notes.txt"):
        (home / name).write_text(SECRET)
        (home / name).chmod(0o666)
    home.chmod(0o777)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("REASONBANK_URL", f"sqlite:///{home}/bank.db")
    return home


FILES = {
    "a file of the home": "print(open(HOME + '/notes.txt').read())",
    "the keys of the home": "print(open(HOME + '/.ssh/id').read())",
    "the bank": "print(open(HOME + '/bank.db').read())",
    "the home by the password file": "import pwd\nprint([open(p.pw_dir + '/notes.txt').read()"
    " for p in pwd.getpwall()])",
    "all files there are": "import os\nfor folder, _, names in os.walk('/'):\n"
    "    for name in names:\n        p = folder + '/' + name\n"
    "        if name in ('notes.txt', 'bank.db'): print('ESCAPED', p)\n",
    "the root of another process": "import os\nfor p in os.listdir('/proc'):\n"
    "    try: print(open(f'/proc/{p}/root' + HOME + '/notes.txt').read())\n"
    "    except OSError: pass",
    "the folder of another process": "import os\nfor p in os.listdir('/proc'):\n"
    "    if p.isdigit() and int(p) not in (os.getpid(),):\n"
    "        try: print('ESCAPED' if 'notes.txt' in os.listdir(f'/proc/{p}/cwd') else '')\n"
    "        except OSError: pass",
    "the environment of the first process": "print('ESCAPED', open('/proc/1/environ').read())",
    "the environment of all": "import os\nfor p in os.listdir('/proc'):\n"
    "    try: print(open(f'/proc/{p}/environ').read())\n    except OSError: pass",
    "its own environment": "import os\nprint(dict(os.environ))",
    "the memory of the first process": "print('ESCAPED', open('/proc/1/mem', 'rb').read(1))",
    "the descriptors of the first process": "import os\nprint('ESCAPED', os.listdir('/proc/1/fd'))",
    "descriptors that were left open": "import os\nfor fd in range(3, 256):\n"
    "    try: there = os.readlink(f'/proc/self/fd/{fd}')\n    except OSError: continue\n"
    "    if there[0] == '/' and not there.startswith(('/proc', '/task')): print('ESCAPED', there)",
    "a link out": "import os\nos.symlink(HOME + '/notes.txt', 'l')\nprint(open('l').read())",
    "a hard link out": "import os\nos.link(HOME + '/notes.txt', 'l')\nprint('ESCAPED')",
    "up from the top": "print(open('../' * 20 + HOME[1:] + '/notes.txt').read())",
    "passwords": "print('ESCAPED', open('/etc/shadow').read())",
    "who has an account here": "lines = open('/etc/passwd').readlines()\n"
    "print('ESCAPED' if len(lines) > 2 else '')",
    "write to the system": "open('/usr/lib/evil', 'w').write('x')\nprint('ESCAPED')",
    "write to its interpreter": "import os, sys\n"
    "open(os.path.dirname(os.__file__) + '/sitecustomize.py', 'w')\nprint('ESCAPED')",
    "write to the root": "open('/evil', 'w').write('x')\nprint('ESCAPED')",
    "preload a library": "open('/etc/ld.so.preload', 'w').write('/tmp/x.so')\nprint('ESCAPED')",
    "what runs it": "open('/run/reasonbank/boot.py', 'a').write('x')\nprint('ESCAPED')",
    "the devices of the system": "import os\nprint('ESCAPED' if set(os.listdir('/dev')) - {'null',"
    " 'zero', 'full', 'random', 'urandom', 'shm', 'fd', 'stdin', 'stdout', 'stderr'} else '')",
    "the devices of a bus": "import os\nprint('ESCAPED', os.listdir('/sys'))",
    "control groups": "import os\nprint('ESCAPED', os.listdir('/sys/fs/cgroup'))",
    "settings of the kernel": "open('/proc/sys/kernel/core_pattern', 'w')\nprint('ESCAPED')",
    "the memory of the machine": "open('/proc/kcore', 'rb')\nprint('ESCAPED')",
    "wake the machine's keys": "open('/proc/sysrq-trigger', 'w')\nprint('ESCAPED')",
    "the socket of containers": "import os\nprint('ESCAPED', os.stat('/var/run/docker.sock'))",
    "what other services left in /run": "import os\n"
    "print('ESCAPED' if os.listdir('/run') != ['reasonbank'] else '')",
    # But for the way to the interpreter, where that was installed there.
    "what others left in /tmp": "import os, sys\nway = (sys.prefix + '/').split('/')[2]\n"
    "print('ESCAPED' if set(os.listdir('/tmp')) - {way} else '')",
    "shared memory of others": "import os\nprint('ESCAPED' if os.listdir('/dev/shm') else '')",
    "programs that make root": "import os, subprocess\n"
    "for name in ('su', 'sudo', 'mount', 'passwd', 'newgrp', 'chsh'):\n"
    "    for folder in ('/usr/bin/', '/bin/'):\n        if os.path.exists(folder + name):\n"
    "            done = subprocess.run(['sh', '-c', f'{folder}{name} -c id 2>&1'],\n"
    "                capture_output=True, text=True, stdin=subprocess.DEVNULL)\n"
    "            if 'uid=0' in done.stdout: print('ESCAPED')",
    "a program of its own that makes root": "import os, shutil, subprocess\n"
    "shutil.copy('/usr/bin/id', 'id')\nos.chmod('id', 0o6755)\n"
    "if b'uid=0' in subprocess.run(['./id'], capture_output=True).stdout: print('ESCAPED')",
    "capabilities that were left": "for line in open('/proc/self/status'):\n"
    "    if line.startswith('Cap') and int(line.split()[1], 16): print('ESCAPED', line)\n"
    "    if line.startswith(('NoNewPrivs', 'Seccomp:')) and '0' in line: print('ESCAPED')",
    "being root": "import os\nif 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):"
    " print('ESCAPED')",
}  # fmt: skip


@requirement("AGT-2")
@pytest.mark.parametrize("escape", FILES)
def test_nothing_of_the_machine_is_read_or_written(escape, outside):
    refused(f"HOME = {str(outside)!r}\n{FILES[escape]}")
    assert (outside / "notes.txt").read_text() == SECRET


# Others


@contextmanager
def listening(place):
    """A Unix socket of whoever is outside, which says a secret."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        server.settimeout(60)

        def answer():
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(SECRET.encode())
            except OSError:
                return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@requirement("AGT-2")
@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_no_unix_socket_of_others_is_reached(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = f"{tmp_path}/s" if kind == "path" else f"\0reasonbank-{os.getpid()}"
    with listening("s" if kind == "path" else place):
        refused(
            "import socket\ns = socket.socket(socket.AF_UNIX)\n"
            f"s.connect({place!r})\nprint('ESCAPED', s.recv(100))"
        )


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.2.2", "169.254.169.254", "::1"])
def test_no_address_is_reached(kind, address):
    family = "AF_INET6" if ":" in address else "AF_INET"
    ended = refused(
        f"import socket\ns = socket.socket(socket.{family}, socket.{kind})\ns.settimeout(3)\n"
        f"s.connect(({address!r}, 9))\ns.send(b'x')\nprint('ESCAPED')"
    )
    assert not ended.passed


def test_no_process_outside_is_seen_or_signalled():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        refused(
            "import os, signal\nfor pid in range(20, 70000):\n"
            "    if pid == os.getpid(): continue\n"
            "    try: os.kill(pid, signal.SIGKILL)\n    except OSError: pass\n"
            f"try: os.kill({other.pid}, 9)\nexcept OSError: pass\n"
        )
        assert other.poll() is None
        other.communicate(b"\n")


def test_the_first_process_of_the_box_cannot_be_ended():
    refused("import os, signal\nfor s in (9, 15, 19): os.kill(1, s)\nprint('still here')")


# Too much of something

BOMBS = {
    "processes": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory": "held = []\nwhile True: held.append(bytearray(10_000_000))",
    "memory of many": "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n"
    "        held = bytearray(b'x') * 60_000_000\n        time.sleep(60)\n"
    "for _ in range(8): os.wait()",
    "the disk": "import os\nwhile True: open(os.urandom(8).hex(), 'wb').write(b'x' * 900_000)",
    "the disk by /tmp": "n = 0\nwhile True:\n    n += 1\n"
    "    open(f'/tmp/{n}', 'wb').write(b'x' * 900_000)",
    "the disk by /dev/shm": "n = 0\nwhile True:\n    n += 1\n"
    "    open(f'/dev/shm/{n}', 'wb').write(b'x' * 900_000)",
    "files without content": "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').close()",
    "open files": "import os\nwhile True: os.dup(0)",
    "pipes": "import os\nwhile True: os.pipe()",
    "time": "while True: pass",
    "time in a call": "import time\ntime.sleep(1000)",
    "time against signals": "import signal\nfor s in set(signal.Signals) - {9, 19}:\n"
    "    signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
    "time in children": "import os, time\nif os.fork():\n    os.wait()\nos.setsid()\n"
    "if os.fork() == 0:\n    time.sleep(1000)\nos.wait()",
    "output": "while True: print('x' * 1000)",
    "output of a child": "import os\nif os.fork() == 0:\n    while True: os.write(1, b'x' * 1000)\n"
    "os.wait()",
}  # fmt: skip


@requirement("AGT-2")
@pytest.mark.parametrize("what", BOMBS)
def test_too_much_of_something_is_stopped(what):
    ended = refused(BOMBS[what], seconds=3.0, memory_mb=256, disk_mb=16, processes=20)
    assert not ended.passed


def test_nothing_is_left_running_however_it_hides():
    name = f"left{os.getpid()}"
    program = (
        f"import os, signal, time\nopen('/proc/self/comm', 'w').write({name!r})\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        for fd in range(3): os.close(fd)\n        time.sleep(1000)\n    os._exit(0)\n"
        "os.wait()\n"
    )
    assert refused(program).passed
    assert name not in [_comm(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _comm(entry):
    try:
        return (entry / "comm").read_text().strip()
    except OSError:
        return ""


def test_no_core_is_dumped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused("import os\nprint(os.listdir('.'))\nos.abort()")
    assert list(tmp_path.iterdir()) == []


# The verifier's own files


def test_the_files_of_a_verifier_are_read_only_and_stay_where_they_are():
    tests = Verifier(
        name="own",
        command=("sh", "checks/run.sh"),
        files={"checks/run.sh": "cat solution.py > out; exec sh ./solution.py\n"},
    )
    if not has_boxes():
        pytest.skip("this kernel gives no box")
    for attack in (
        "echo exit 0 > checks/run.sh", "rm -f checks/run.sh", "mv checks elsewhere",
        "rm -rf checks", "ln -sf /bin/true checks/run.sh", "chmod 777 checks/run.sh",
        "mv checks/run.sh x", "touch checks/__pycache__/x",
    ):  # fmt: skip
        shell = f"```sh solution.py\n{attack} 2>/dev/null && echo ESCAPED\nexit 3\n```\n"
        ended = anyio.run(tests.verify, shell)
        assert not ended.passed and "ESCAPED" not in ended.report.split("\n", 1)[1:], attack
        assert "Exit code 3" in ended.report


def test_what_the_command_names_is_seen_and_nothing_beside_it(tmp_path):
    if not has_boxes():
        pytest.skip("this kernel gives no box")
    (tmp_path / "checks").mkdir()
    check = tmp_path / "checks" / "check.py"
    check.write_text("import os, solution\nassert solution.x == 2\nprint(os.listdir('..'))\n"
                     "print(os.listdir(os.path.dirname(os.path.dirname(__file__))))\n")  # fmt: skip
    (tmp_path / "secret").write_text(SECRET)
    command = (sys.executable, str(check))
    assert run("x = 2", command=command).passed
    assert not run("x = 1", command=command).passed
    assert "secret" not in run("x = 2", command=command).report
    meddling = (
        f"x = 1\ntry:\n    open({str(check)!r}, 'w')\n    print('ESCAPED')\nexcept OSError: pass\n"
    )
    assert "ESCAPED" not in run(meddling, command=command).report


@pytest.mark.parametrize("path", ["/", "~", "/etc"])
def test_a_command_that_would_show_everything_is_refused(path):
    with pytest.raises(Refused, match="hides nothing"):
        run("", command=("ls", os.path.expanduser(path)))


# Where a part is missing


def test_a_machine_whose_calls_are_not_known_has_no_filter(monkeypatch):
    assert seccomp.program("riscv64") is None
    for machine in seccomp.ARCHITECTURES:
        assert len(seccomp.program(machine)) % 8 == 0
    monkeypatch.setattr(seccomp, "ARCHITECTURES", {})
    with pytest.raises(Refused, match="filter of system calls" if has_boxes() else "box"):
        run("print('hello')")


MISSING = {
    "namespaces": ("NAMESPACES = NEW_USER", "NAMESPACES = 1 | NEW_USER"),
    "mount_setattr": ("AT_RECURSIVE = 442", "AT_RECURSIVE = 9999"),
    "pivot_root": ('PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}', "PIVOT_ROOT = NONE"),
    "seccomp": ("INVALID = 2,", "INVALID = 77,"),
    "capabilities": ('CAPSET = {"x86_64": 126, "aarch64": 91}', "CAPSET = NONE"),
    "/proc": ('b"subset=pid"', 'b"subset=nothing"'),
    "an unprivileged user": ("NOBODY = 1000, 65534", "NOBODY = 1000, 4294967295"),
}
NONE = '{"x86_64": 9999, "aarch64": 9999}'


@requirement("AGT-2")
@pytest.mark.parametrize("part", MISSING)
def test_a_box_that_lacks_a_part_is_no_box(part, monkeypatch, tmp_path):
    """The launcher as it would be where the kernel has no such thing."""
    if part == "an unprivileged user" and os.geteuid() != 0:
        pytest.skip("only root needs another user")
    launcher = Path(sys.modules["reasonbank.agent.sandbox"].__file__).read_text("utf-8")
    there, gone = MISSING[part]
    assert there in launcher
    poor = tmp_path / "sandbox.py"
    poor.write_text(launcher.replace(there, gone.replace("NONE", NONE)))
    monkeypatch.setattr("reasonbank.agent.sandbox.__file__", str(poor))
    with pytest.raises(Refused, match=part if has_boxes() else "box") as error:
        run("print('hello')")
    assert "sandbox.network" in str(error.value)
    unboxed = run("print('hello')", network="allow")
    assert not unboxed.isolated and "Run without a box" in unboxed.report
