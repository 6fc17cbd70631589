"""The index inside the process: its file, its damage, its neighbours, its recall."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reasonbank.errors import InvalidInput, StorageError
from reasonbank.index.local import LocalIndex
from reasonbank.testing.index_contract import (
    DIMENSIONS,
    IndexContract,
    OpenIndex,
    brute_force,
    changes,
    found,
    some_vectors,
)

COUNT = 1200


def opened(path: Path | None, *, model: str = "m", dimensions: int = DIMENSIONS) -> LocalIndex:
    return LocalIndex(path, model=model, dimensions=dimensions)


def saved(path: Path, *, count: int = COUNT, first: int = 1) -> LocalIndex:
    index = opened(path)
    index.follow(changes(range(count), some_vectors(count), first=first))
    index.save()
    return index


class TestLocalIndex(IndexContract):
    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        return lambda: opened(tmp_path / "vectors")


class TestLocalIndexThatWritesEveryChange(IndexContract):
    """Everything the contract asks, with the rows in the snapshot and not in the tail."""

    @pytest.fixture(autouse=True)
    def _eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("reasonbank.index.local.WORTH_SAVING", 1)
        monkeypatch.setattr("reasonbank.index.local.WORTH_CLOSING", 1)
        follow = LocalIndex.follow

        def follow_and_save(self: LocalIndex, new: object) -> None:
            follow(self, new)  # type: ignore[arg-type]
            self.save()

        monkeypatch.setattr(LocalIndex, "follow", follow_and_save)

    @pytest.fixture
    def open_index(self, tmp_path: Path) -> OpenIndex:
        return lambda: opened(tmp_path / "vectors")


class TestLocalIndexInMemory(IndexContract):
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        return lambda: opened(None)


def test_a_saved_index_opens_where_it_was_left(tmp_path: Path) -> None:
    saved(tmp_path / "v")
    again = opened(tmp_path / "v")
    assert (again.position, len(again)) == (COUNT, COUNT)
    query = some_vectors(1, seed=3)[0]
    assert found(again, query) == brute_force(some_vectors(COUNT), query, 10)
    assert again.verify()


def test_a_short_tail_is_not_worth_a_file(tmp_path: Path) -> None:
    index = opened(tmp_path / "v")
    index.follow(changes(range(50), some_vectors(50)))
    index.save()
    index.close()
    assert list(tmp_path.iterdir()) == []


def test_closing_keeps_a_tail_that_saving_would_not(tmp_path: Path) -> None:
    index = opened(tmp_path / "v")
    index.follow(changes(range(500), some_vectors(500)))
    index.save()
    assert list(tmp_path.iterdir()) == []
    index.close()
    assert opened(tmp_path / "v").position == 500


@pytest.mark.parametrize("model", ["another", "m" * 10_000])
def test_a_file_of_another_model_is_not_trusted(tmp_path: Path, model: str) -> None:
    saved(tmp_path / "v")
    assert opened(tmp_path / "v", model=model).position == 0
    assert len(opened(tmp_path / "v", dimensions=DIMENSIONS + 1)) == 0


def test_a_file_of_another_version_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "v")
    monkeypatch.setattr("reasonbank.index.snapshot.VERSION", 2)
    assert opened(tmp_path / "v").position == 0


def test_a_truncated_file_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "v"
    saved(path)
    whole = path.read_bytes()
    for length in {0, 1, 8, 15, 16, 40, 4095, 4096, len(whole) // 2, len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert opened(path).position == 0
    path.write_bytes(whole + b"\0")
    assert opened(path).position == 0


def test_random_bytes_are_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "v"
    rng = np.random.default_rng(0)
    for length in (1, 16, 100, 5000, 100_000):
        path.write_bytes(rng.bytes(length))
        assert opened(path).position == 0
        path.write_bytes(b"RBINDEX\0" + rng.bytes(length))
        assert opened(path).position == 0


def test_a_flipped_bit_is_seen_at_the_door_or_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = saved(path)
    whole = path.read_bytes()
    layout = index._view.snapshot._layout
    text_end = 16 + int.from_bytes(whole[12:16], "little")
    small_end = layout["seals"][2]
    rng = np.random.default_rng(0)
    places = [*range(text_end), *rng.integers(4096, len(whole), 300).tolist()]
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        again = opened(path)
        if place < small_end:
            assert (again.position, len(again)) == (0, 0), place
        else:
            assert not again.verify() or again.position == 0 or _is_padding(layout, place)


def _is_padding(layout: dict[str, tuple[type, tuple[int, ...], int]], place: int) -> bool:
    return not any(
        start <= place < start + int(np.prod(shape)) * np.dtype(dtype).itemsize
        for dtype, shape, start in layout.values()
    )


def test_an_untrusted_file_is_replaced_once_the_ledger_was_followed_again(tmp_path: Path) -> None:
    path = tmp_path / "v"
    path.write_bytes(b"something else entirely")
    saved(path)
    assert opened(path).position == COUNT


def test_not_a_number_in_a_row_or_a_query_finds_nothing_false(tmp_path: Path) -> None:
    path = tmp_path / "v"
    vectors = some_vectors(COUNT)
    index = opened(path)
    bad = vectors.copy()
    bad[3] = np.nan
    bad[4, 2] = np.inf
    bad[5] = 0
    index.follow(changes(range(COUNT), bad))
    assert len(index) == COUNT - 3
    assert not np.isnan(index.nearest(vectors[3], realms=[1], limit=50)[1]).any()
    assert found(index, np.full(DIMENSIONS, np.nan, np.float32)) == []
    index.save()
    # What a bad disk could do to a row that was sound when it was written.
    start = index._view.snapshot._layout["matrix"][2]
    with path.open("r+b") as file:
        file.seek(start)
        file.write(np.full(DIMENSIONS, np.nan, np.float32).tobytes())
    nums, cosines = opened(path).nearest(vectors[9], realms=[1], limit=COUNT)
    assert len(nums) == COUNT - 4 and np.isfinite(cosines).all()


def test_a_query_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    index = saved(tmp_path / "v")
    with pytest.raises(InvalidInput, match="query"):
        index.nearest(np.zeros(3, np.float32), realms=[1], limit=1)
    with pytest.raises(InvalidInput, match="vectors"):
        index.follow(changes([1], some_vectors(1, dimensions=3), first=9999))


def test_a_query_that_is_not_a_unit_vector_still_gives_cosines(tmp_path: Path) -> None:
    vectors = some_vectors(COUNT)
    _, cosines = saved(tmp_path / "v").nearest(3 * vectors[0], realms=[1], limit=1)
    assert cosines == pytest.approx([1.0], abs=1e-3)


def test_the_old_file_goes_on_working_for_who_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "v"
    vectors = some_vectors(4 * COUNT)
    first = saved(path)
    second = opened(path)
    second.follow(changes(range(COUNT, 4 * COUNT), vectors[COUNT:], first=COUNT + 1))
    second.save()
    query = some_vectors(1, seed=3)[0]
    assert found(first, query) == brute_force(vectors[:COUNT], query, 10)
    assert found(opened(path), query) == brute_force(vectors, query, 10)


def test_an_older_index_never_replaces_a_newer_file(tmp_path: Path) -> None:
    path = tmp_path / "v"
    slow = opened(path)
    slow.follow(changes(range(COUNT), some_vectors(COUNT)))
    saved(path, count=2 * COUNT)
    slow.save()
    assert opened(path).position == 2 * COUNT
    assert (slow.position, len(slow)) == (2 * COUNT, 2 * COUNT)


def test_changes_that_arrive_during_a_save_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(tmp_path / "v")
    vectors = some_vectors(COUNT + 2)
    index.follow(changes(range(COUNT), vectors[:COUNT]))
    fsync: Callable[[int], None] = os.fsync
    late = [
        changes([COUNT, 0], vectors[COUNT:], first=COUNT + 1),
        changes([1], vectors[:1], first=COUNT + 3, deleted=True),
    ]

    def while_writing(handle: int) -> None:
        while late:
            index.follow(late.pop(0))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", while_writing)
    index.save()
    assert (index.position, len(index)) == (COUNT + 3, COUNT)
    assert found(index, vectors[COUNT + 1], limit=1) == [0]
    assert not index.vectors(np.array([1])).any()
    assert opened(tmp_path / "v").position == COUNT


def test_a_process_killed_while_saving_leaves_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "v"
    saved(path)
    script = f"""
import os
from pathlib import Path
from reasonbank.testing.index_contract import changes, some_vectors
from reasonbank.index.local import LocalIndex
os.fsync = lambda handle: os._exit(9)
index = LocalIndex(Path({str(path)!r}), model="m", dimensions={DIMENSIONS})
index.follow(changes(range(9000), some_vectors(9000), first=index.position + 1))
index.save()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert len(list(tmp_path.iterdir())) == 2
    again = opened(path)
    assert again.position == COUNT
    again.follow(changes(range(3 * COUNT), some_vectors(3 * COUNT), first=COUNT + 1))
    again.save()
    assert [entry.name for entry in tmp_path.iterdir()] == ["v"]


def test_processes_that_save_at_once_leave_the_newest_file_and_nothing_else(
    tmp_path: Path,
) -> None:
    script = """
import sys
from pathlib import Path
from reasonbank.testing.index_contract import changes, some_vectors
from reasonbank.index.local import LocalIndex
index = LocalIndex(Path(sys.argv[1]), model="m", dimensions=16)
for step in range(1, 9):
    count = 1500 * step + int(sys.argv[2])
    index.follow(changes(range(count), some_vectors(count)))
    index.save()
    assert index.verify() and index.position >= count, (index.position, count)
"""
    path = tmp_path / "v"
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(extra)])
        for extra in (0, 100, 700)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["v"]
    again = opened(path)
    assert again.verify()
    assert len(again) == again.position >= 12_000


def test_a_directory_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for path in (tmp_path / "file" / "v", tmp_path / "missing" / "v", Path("/proc/v")):
        index = saved(path)
        index.erase(np.array([7]))
        assert len(index) == COUNT - 1
        index.close()
        assert opened(path).position == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_stops_nobody(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert len(saved(tmp_path / "v")) == COUNT
    tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_nobody_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = saved(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    index.follow(changes(range(9000), some_vectors(9000), first=COUNT + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        index.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(index) == 9000
    assert [entry.name for entry in tmp_path.iterdir()] == ["v"]
    assert opened(path).position == COUNT


def test_an_erased_vector_is_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = saved(path)
    secret = some_vectors(COUNT)[7]
    assert secret.tobytes() in path.read_bytes()
    index.erase(np.array([7]))
    assert secret.tobytes() not in path.read_bytes()
    again = opened(path)
    assert (len(again), again.verify()) == (COUNT - 1, True)
    assert 7 not in found(again, secret, limit=COUNT)


def test_an_erased_vector_is_not_in_memory_either_even_if_it_was_revised(tmp_path: Path) -> None:
    index = opened(None)
    vectors = some_vectors(3)
    index.follow(changes([1, 2], vectors[:2]))
    index.follow(changes([1], vectors[2:], first=3))
    view = index._view
    index.erase(np.array([1]))
    assert not np.isin(view.vectors, vectors[[0, 2]]).any()


def test_a_revised_row_is_erased_in_the_snapshot_too(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = saved(path)
    secret = some_vectors(COUNT)[7]
    index.follow(changes([7], some_vectors(1, seed=9), first=COUNT + 1))
    index.erase(np.array([7]))
    assert secret.tobytes() not in path.read_bytes()


def test_erasing_reaches_a_file_that_another_process_wrote_since(tmp_path: Path) -> None:
    path = tmp_path / "v"
    first = saved(path)
    saved(path, count=3 * COUNT)
    secret = some_vectors(COUNT)[7]
    assert not first._view.snapshot.is_at(path)
    first.erase(np.array([7]))
    assert secret.tobytes() not in path.read_bytes()
    assert not first.vectors(np.array([7])).any()
    assert len(opened(path)) == 3 * COUNT - 1


def test_erasing_removes_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = saved(path)
    path.unlink()
    path.write_bytes(b"perhaps it has the vector, perhaps not")
    index.erase(np.array([7]))
    assert not path.exists()


def test_a_deletion_that_is_followed_erases_the_row_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "v"
    saved(path)
    secret = some_vectors(COUNT)[7]
    late = opened(path)
    late.follow(changes([7], some_vectors(1), first=COUNT + 1, deleted=True))
    assert secret.tobytes() not in path.read_bytes()
    assert late.verify()


def test_erasing_what_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v"
    index = saved(path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(index._view.snapshot, "erase", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageError, match="delete that file"):
        index.erase(np.array([7]))
    assert 7 not in found(index, some_vectors(COUNT)[7], limit=COUNT)


def test_a_file_that_cannot_be_overwritten_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v"
    index = saved(path)

    def refuse(_: object) -> None:
        raise PermissionError("opened for reading only")

    monkeypatch.setattr(index._view.snapshot, "erase", refuse)
    index.erase(np.array([7]))
    assert not path.exists()


def test_opening_reads_no_matrix(tmp_path: Path) -> None:
    path = tmp_path / "v"
    index = opened(path, dimensions=384)
    index.follow(changes(range(20_000), some_vectors(20_000, dimensions=384)))
    index.save()
    index.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    again = opened(path, dimensions=384)
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert len(again) == 20_000
    assert pages * resource.getpagesize() < path.stat().st_size / 4
