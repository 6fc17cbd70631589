"""Places where no bank can be, and files that are none."""

from __future__ import annotations

import os
import random
from pathlib import Path

import apsw
import pytest
from fault_tools import a_memory, open_bank

from reasonbank.bank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.errors import InvalidInput, NewerBank, ReasonBankError, StorageError
from reasonbank.store.vectors import embedding_text


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("file/bank.db", StorageError),
        ("file/deeper/bank.db", StorageError),
        ("folder", InvalidInput),
        pytest.param("x" * 300 + ".db", ReasonBankError, id="a long name"),
        pytest.param("~nobody-here/bank.db", ReasonBankError, id="~nobody"),
    ],
)
def test_a_place_where_no_bank_can_be_is_refused(
    tmp_path: Path, where: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        Bank.open(where, workspace="/project")
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc here")
def test_a_folder_that_cannot_be_written_is_named_with_the_way_out() -> None:
    with pytest.raises(StorageError, match=r"/proc/.*--bank"):
        open_bank(Path("/proc/nobody/bank.db"))
    with pytest.raises(StorageError, match=r"/proc/.*--bank"):
        open_bank(Path("/proc/bank.db"))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("size", [100, 512, 4096, 20_000])
def test_a_file_that_is_no_database_is_refused_unharmed(
    path: Path, size: int, read_only: bool
) -> None:
    path.parent.mkdir()
    noise = random.Random(size).randbytes(size)
    path.write_bytes(noise)
    with pytest.raises(StorageError, match="not a ReasonBank"):
        open_bank(path, read_only=read_only)
    assert path.read_bytes() == noise


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("version", [0, 1, 7])
@pytest.mark.parametrize("tables", ["meta (key, value)", "meta (a)", "customers (name)"])
def test_a_database_of_another_program_is_refused_unharmed(
    path: Path, version: int, tables: str, read_only: bool
) -> None:
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    db.execute(f"create table {tables}; pragma user_version={version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a ReasonBank"):
        open_bank(path, read_only=read_only)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_newer_bank_is_refused_unharmed(path: Path, mode: str, read_only: bool) -> None:
    with open_bank(path) as bank:
        bank.record(a_memory())
    db = apsw.Connection(str(path))
    db.pragma("user_version", db.pragma("user_version") + 1)
    db.execute("create table from_the_future (a)")
    db.pragma("journal_mode", mode)
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerBank, match="upgrade"):
        open_bank(path, read_only=read_only)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_bank(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StorageError):
        open_bank(path, read_only=True)
    with open_bank(path) as bank:
        bank.record(a_memory())


def test_a_bank_that_is_not_there_cannot_be_opened_read_only(path: Path) -> None:
    with pytest.raises(StorageError):
        open_bank(path, read_only=True)
    assert not path.exists()


def test_a_read_only_bank_reads_and_refuses_to_write(path: Path) -> None:
    with open_bank(path) as bank:
        memory = bank.record(a_memory("Zebra"))
        bank.search("zebra")
    with open_bank(path, read_only=True) as bank:
        assert bank.get(memory.id).title == "Zebra"
        assert bank.search("zebra")
        for call in (lambda: bank.record(a_memory()), lambda: bank.forget(memory.id),
                     lambda: bank.rebuild(), lambda: bank.maintain()):  # fmt: skip
            with pytest.raises(StorageError, match="read-only"):
                call()


def damaged(data: bytes, how: str) -> bytes:
    rng = random.Random(how)
    match how:
        case "empty":
            return b""
        case "cut":
            return data[: len(data) // 2]
        case "longer":
            return data + b"more"
        case "noise":
            return rng.randbytes(len(data))
        case "zeros":
            return bytes(len(data))
        case _:
            bits = bytearray(data)
            start = {"header": 0, "front": 64, "arrays": 4096, "rows": len(data) - 4096}[how]
            for _ in range(8):
                bits[start + rng.randrange(min(1000, len(data) - start))] ^= 0xFF
            return bytes(bits)


@pytest.mark.parametrize(
    "how", ["empty", "cut", "longer", "noise", "zeros", "header", "front", "arrays"]
)
def test_a_damaged_index_is_made_anew_and_search_stays_right(path: Path, how: str) -> None:
    rng = random.Random(11)
    words = [f"word{number}" for number in range(60)]

    def found(bank: Bank) -> dict[str, float]:
        reply = bank.search("word3 word14 word15", limit=100, explain=True)
        return {hit.memory.id: hit.parts["cosine"] for hit in reply}

    with open_bank(path) as bank:
        for number in range(120):
            bank.record(a_memory(f"Lesson {number}", content=" ".join(rng.sample(words, 12))))
        bank.reindex()
        right = found(bank)
    index = next(path.parent.glob("*.index"))
    index.write_bytes(damaged(index.read_bytes(), how))
    with open_bank(path) as bank:
        assert len(right) > 5
        assert found(bank) == pytest.approx(right, abs=1e-4)
        bank.record(a_memory("Lesson about zebras"))
        assert bank.search("zebras")[0].memory.title == "Lesson about zebras"


def test_a_folder_in_the_place_of_the_index_does_no_harm(path: Path) -> None:
    path.with_name(f"{path.name}.{Hashed().name}.index").mkdir(parents=True)
    with open_bank(path) as bank:
        for number in range(120):
            bank.record(a_memory(f"Lesson {number}"))
        bank.reindex()
        memory = bank.record(a_memory("Zebra"))
        assert bank.search("zebra")[0].memory.id == memory.id
    with open_bank(path) as bank:
        assert bank.search("zebra")[0].memory.id == memory.id


def test_an_index_that_is_ahead_of_the_bank_is_not_trusted(path: Path) -> None:
    """An older copy of the bank was put back; the index beside it knows too much."""
    with open_bank(path) as bank:
        bank.record(a_memory("The first lesson"))
    backup = path.read_bytes()
    with open_bank(path) as bank:
        for number in range(120):
            bank.record(a_memory(f"Lesson about topic{number}"))
        bank.reindex()
    assert list(path.parent.glob("*.index"))
    path.write_bytes(backup)
    with open_bank(path) as bank:
        memory = bank.record(a_memory("Zebra crossing"))
        hit = bank.search("zebra crossing", explain=True)[0]
        assert hit.memory.id == memory.id
        question, lesson = Hashed().embed(["zebra crossing", embedding_text(memory)])
        assert hit.parts["cosine"] == pytest.approx(float(question @ lesson), abs=0.01)


def test_a_damaged_bank_gives_an_error_that_says_what_to_do(path: Path) -> None:
    with open_bank(path) as bank:
        ids = [bank.record(a_memory(f"Lesson {n}", content="word " * 500)).id for n in range(50)]
    data = bytearray(path.read_bytes())
    for page in range(4096 * 4, len(data) - 4096, 4096):
        data[page : page + 200] = bytes([7]) * 200
    path.write_bytes(data)

    def read_all() -> None:
        with open_bank(path) as bank:
            for id in ids:
                bank.get(id)

    with pytest.raises(StorageError, match="damaged"):
        read_all()


def test_a_sound_bank_is_not_called_corrupt_by_one_who_looked_before(tmp_path: Path) -> None:
    with open_bank(tmp_path / "bank.db") as bank:
        for number in range(60):
            memory = bank.record(a_memory(title=f"Lesson {number}"))
            bank.search("lesson")
            bank.update(memory.id, domain="networks")
            bank.archive(memory.id)
            bank.restore(memory.id)
            assert bank.store.ledger.check() == []
