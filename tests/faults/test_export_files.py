"""Where `reasonbank export` may write, as whoever types it sees it; and what it leaves."""

from __future__ import annotations

import io
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_tools import a_memory, files_beside, open_bank
from tests.requirement import requirement

REFUSED = 4


@pytest.fixture
def folder(memory_disk: Path) -> Path:
    """A bank of some size, closed, and another one beside it."""
    with open_bank(memory_disk / "bank.db") as bank:
        for number in range(120):
            bank.record(a_memory(f"Lesson {number}"))
        bank.reindex()
    with open_bank(memory_disk / "other.db") as bank:
        bank.record(a_memory("Of another bank"))
    return memory_disk


def command(folder: Path, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "REASONBANK_URL": f"sqlite:///{folder}/bank.db",
        "REASONBANK_EMBED_MODEL": "hashed",
        "HOME": str(folder),
    }
    return subprocess.run(
        [sys.executable, "-m", "reasonbank.surfaces.cli", "--workspace", "/project", *arguments],
        env=os.environ | environment | options,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in files_beside(folder / "bank.db")}


def index_of(folder: Path) -> Path:
    return next(folder.glob("bank.db.*.index"))


def a_link(folder: Path) -> Path:
    (folder / "link.jsonl").symlink_to("bank.db")
    return folder / "link.jsonl"


def a_link_to_nothing(folder: Path) -> Path:
    (folder / "link.jsonl").symlink_to("nothing.jsonl")
    return folder / "link.jsonl"


def a_link_to_an_export(folder: Path) -> Path:
    assert command(folder, "export", "earlier.jsonl").returncode == 0
    (folder / "link.jsonl").symlink_to("earlier.jsonl")
    return folder / "link.jsonl"


def another_name(folder: Path) -> Path:
    (folder / "name.jsonl").hardlink_to(folder / "bank.db")
    return folder / "name.jsonl"


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.jsonl")
    return folder / "pipe.jsonl"


def a_socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.jsonl"))
    return folder / "socket.jsonl"


def a_device(folder: Path) -> Path:
    # One of its own: whoever runs this as root would lose /dev/null if the promise broke.
    try:
        os.mknod(folder / "device.jsonl", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("making a device needs root")
    return folder / "device.jsonl"


def standard_output(folder: Path) -> Path:
    (folder / "stdout").symlink_to("/proc/self/fd/1")
    return folder / "stdout"


PLACES: list[Callable[[Path], Path]] = [
    lambda folder: folder / "bank.db",
    lambda folder: folder / "other.db",
    lambda folder: folder / "bank.db-wal",
    lambda folder: folder / "bank.db-shm",
    lambda folder: folder / "other.db-journal",
    index_of,
    lambda folder: folder / "bank.db.new.index",
    lambda folder: folder / "other.db.replies",
    a_link, a_link_to_nothing, a_link_to_an_export, another_name, a_pipe, a_socket,
    a_device, standard_output,
]  # fmt: skip
NAMES = [
    "the bank", "another bank", "its log", "its shared memory", "another bank's journal",
    "its index", "an index to be", "another bank's replies", "link", "link to nothing",
    "link to an export", "hard link", "pipe", "socket", "device", "stdout by its name",
]  # fmt: skip


@requirement("MEM-10")
@pytest.mark.parametrize("flag", [(), ("--overwrite",)], ids=["plain", "overwrite"])
@pytest.mark.parametrize("place", PLACES, ids=NAMES)
def test_an_export_never_overwrites_a_bank_or_what_is_no_regular_file(
    folder: Path, place: Callable[[Path], Path], flag: tuple[str, ...]
) -> None:
    file = place(folder)
    before = contents(folder)
    kind = stat.S_IFMT(file.lstat().st_mode) if os.path.lexists(file) else None
    done = command(folder, "export", str(file), *flag)
    assert done.returncode == REFUSED, done
    assert str(file) in done.stderr
    assert contents(folder) == before
    assert (stat.S_IFMT(file.lstat().st_mode) if os.path.lexists(file) else None) == kind
    assert command(folder, "audit", "--export", str(file), *flag).returncode == REFUSED
    assert contents(folder) == before


@requirement("MEM-10")
def test_a_bank_that_is_new_and_still_in_its_log_is_not_taken_for_an_empty_file(
    folder: Path,
) -> None:
    for name in ("bank.db", "other.db"):
        (folder / name).unlink()
    with open_bank(folder / "bank.db") as mine, open_bank(folder / "other.db") as bank:
        mine.record(a_memory("Here"))
        memory = bank.record(a_memory("Only in the log so far"))
        (folder / "name").hardlink_to(folder / "bank.db")
        for file in ("other.db", "other.db-wal", "other.db-shm", "bank.db", "bank.db-wal", "name"):
            assert command(folder, "export", file, "--overwrite").returncode == REFUSED, file
        assert bank.get(memory.id) == memory
        assert (folder / "name").samefile(folder / "bank.db")
    with open_bank(folder / "other.db") as bank:
        assert bank.get(memory.id) == memory


def test_a_directory_is_refused(folder: Path) -> None:
    (folder / "directory").mkdir()
    assert command(folder, "export", "directory", "--overwrite").returncode == 2


@requirement("MEM-10")
def test_a_file_that_no_export_wrote_is_overwritten_only_when_that_is_said(folder: Path) -> None:
    file = folder / "notes.md"
    for text in ("# My notes\n", "# Memories\n\nof my childhood\n", '{"format": "other"}\n', "\0"):
        file.write_text(text)
        done = command(folder, "export", str(file))
        assert done.returncode == REFUSED and "--overwrite" in done.stderr
        assert file.read_text() == text
    assert command(folder, "export", str(file), "--overwrite").returncode == 0
    assert file.read_text().startswith("# Memories\n\n## Lesson 0\n\n- id: ")


@requirement("MEM-10")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("a.jsonl", ["export"]), ("a.md", ["export"]), ("a.log", ["audit", "--export"])],
)
def test_an_earlier_export_or_an_empty_file_is_replaced(
    folder: Path, name: str, arguments: list[str]
) -> None:
    file = folder / name
    file.touch(mode=0o644)
    done = [command(folder, *arguments, name) for _ in range(2)]
    assert [each.returncode for each in done] == [0, 0], done
    assert file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "it is as private as the bank"
    assert not list(folder.glob(".*"))


def test_an_export_of_an_empty_bank_is_replaced_too(folder: Path) -> None:
    empty = {"REASONBANK_URL": f"sqlite:///{folder}/empty.db"}
    open_bank(folder / "empty.db").close()
    for name in ("empty.md", "empty.jsonl"):
        for _ in range(2):
            assert command(folder, "export", name, **empty).returncode == 0


@requirement("MEM-10")
def test_an_export_that_is_killed_leaves_no_half_file_under_its_name(folder: Path) -> None:
    file = folder / "backup.jsonl"
    assert command(folder, "export", str(file)).returncode == 0
    before = file.read_bytes()
    with open_bank(folder / "bank.db") as bank:
        bank.record(a_memory("Recorded since"))
    # It dies by its own hand in the middle of the log, as if the power had gone.
    script = (
        "import os\n"
        "from reasonbank.ledger.queries import log\n"
        "made, real = [], log.event_of\n"
        "def event_of(row):\n"
        "    made.append(row)\n"
        "    if len(made) > 60: os._exit(9)\n"
        "    return real(row)\n"
        "log.event_of = event_of\n"
        "from reasonbank.surfaces.cli import main\n"
        f"main(['export', {str(file)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"REASONBANK_URL": f"sqlite:///{folder}/bank.db",
                          "REASONBANK_EMBED_MODEL": "hashed"},
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 9
    assert file.read_bytes() == before
    assert command(folder, "export", str(file)).returncode == 0
    assert "Recorded since" in file.read_text()


def test_an_export_that_fails_leaves_nothing_behind(folder: Path) -> None:
    file = folder / "earlier.jsonl"
    assert command(folder, "export", str(file)).returncode == 0
    before = contents(folder)
    assert command(folder, "export", str(folder / "no" / "folder.jsonl")).returncode == 2
    assert contents(folder) == before


def test_an_export_goes_to_standard_output(folder: Path) -> None:
    done = command(folder, "export", "-")
    with open_bank(folder / "copy.db") as bank:
        bank.import_(io.StringIO(done.stdout), trusted=True)
        assert len(bank.memories(limit=500)) == 120
