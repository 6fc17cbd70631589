"""The file behind ``LocalIndex``: rows sorted by realm, mapped, never read whole.

    magic, CRC-32 and length of the header | header (JSON)
    realms, bounds, nums, order, basis     | small; their CRC-32 is in the header
    seals, matrix, head                    | read only where a search looks

``seals`` has one hash a row over its vector and its head. The hash of zeros is 0, so a row
that was erased in place stays consistent, and is known for erased when the file is opened.
``basis`` and ``head`` are the rotation and the leading coordinates of a reduced scan.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import math
import mmap
import os
import struct
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reasonbank.index.scan import (
    CHUNK,
    REDUCE_FROM,
    basis_of,
    coordinates,
    distinct,
    likely_rows,
    member,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reasonbank.index.scan import Floats, Ints

Store = FileIO | mmap.mmap

MAGIC = b"RBINDEX\0"
VERSION = 1
PREFIX = struct.Struct("<8sII")
Layout = dict[str, tuple[type[np.generic], tuple[int, ...], int]]
HEADER = 4096
SAMPLE = 10_000
TEMPORARY = ".tmp"


class Snapshot:
    """Every live vector up to ``position``; immutable, except that rows can be erased."""

    def __init__(self, data: mmap.mmap, store: Store, *, model: str, dimensions: int) -> None:
        """Raises ``ValueError`` unless the data are whole and of this model."""
        magic, check, length = PREFIX.unpack_from(data)
        text = data[PREFIX.size : PREFIX.size + length]
        if magic != MAGIC or zlib.crc32(text) != check:
            raise ValueError("not an index file, or damaged")
        header = json.loads(text)
        if header["made"] != _made(model, dimensions):
            raise ValueError("made by another model or version")
        layout, size = _layout(header, dimensions)
        if size != len(data):
            raise ValueError("truncated")
        small = memoryview(data)[layout["realms"][2] : layout["seals"][2]]
        if zlib.crc32(small) != header["small"]:
            raise ValueError("damaged arrays")
        array: dict[str, NDArray[Any]] = {
            name: np.frombuffer(data, dtype, math.prod(shape), offset).reshape(shape)
            for name, (dtype, shape, offset) in layout.items()
        }
        self.position: int = header["position"]
        self.store = store
        self.realms: Ints = array["realms"]
        self.bounds: Ints = array["bounds"]
        self.nums: Ints = array["nums"]
        self.order: Ints = array["order"]
        self.basis: Floats = array["basis"]
        self.seals: NDArray[np.uint64] = array["seals"]
        self.matrix: Floats = array["matrix"]
        self.head: Floats = array["head"]
        self.erased: Ints = np.flatnonzero(self.seals == 0)
        self._layout = layout
        self._size = size

    @classmethod
    def load(cls, path: Path, *, model: str, dimensions: int) -> Snapshot | None:
        """The file's snapshot, or None when there is none that can be trusted."""
        try:
            store = FileIO(path, "r+" if os.access(path, os.W_OK) else "r")
        except OSError:
            return None
        try:
            data = mmap.mmap(store.fileno(), 0, access=mmap.ACCESS_READ)
            snapshot = cls(data, store, model=model, dimensions=dimensions)
        except (OSError, ValueError, LookupError, TypeError, struct.error):
            store.close()
            return None
        weakref.finalize(snapshot, store.close)
        return snapshot

    def __len__(self) -> int:
        return len(self.nums)

    def is_at(self, path: Path) -> bool:
        """Whether ``path`` still names the file that is mapped here."""
        if not isinstance(self.store, FileIO):
            return False
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self.store.fileno()), path.stat())
        return False

    def is_whole(self) -> bool:
        """Whether the file is as long as it was: to read behind its end kills the process."""
        if not isinstance(self.store, FileIO):
            return True
        return os.fstat(self.store.fileno()).st_size >= self._size

    def find(self, nums: Ints) -> Ints:
        """The row of each num, -1 for a num that is not here."""
        if not len(self):
            return np.full(len(nums), -1)
        at = np.searchsorted(self.nums, nums, sorter=self.order)
        rows = self.order[np.minimum(at, len(self) - 1)]
        return np.where(self.nums[rows] == nums, rows, -1)

    def rows(self, realms: Ints, among: Ints | None, without: Ints) -> Ints:
        """The rows of these realms, all or only these nums', without some; all sorted."""
        asked = np.flatnonzero(member(self.realms, realms))
        if among is None:
            spans = [np.arange(self.bounds[at], self.bounds[at + 1]) for at in asked]
            rows = np.concatenate([np.empty(0, np.int64), *spans])
        else:
            rows = distinct(self.find(among))
            realm = np.searchsorted(self.bounds, rows, side="right") - 1
            rows = rows[(rows >= 0) & member(realm, asked)]
        if not without.size or not rows.size:
            return rows
        at = np.searchsorted(rows, without)
        return np.delete(rows, at[member(without, rows)])

    def likely(self, query: Floats, rows: Ints, limit: int) -> Ints:
        """Those of the rows (sorted) that can be among the best, so far as can be told."""
        if not len(self.basis) or len(rows) < REDUCE_FROM:
            return rows
        return likely_rows(self.matrix, rows, query, limit, head=self.head, basis=self.basis)

    def erase(self, nums: Ints) -> None:
        """Overwrite all that is stored of these nums; raises ``OSError`` when it cannot."""
        rows = self.find(nums)
        rows = rows[rows >= 0]
        rows = rows[self.seals[rows] != 0]
        for row in rows.tolist():
            for name in ("matrix", "head", "seals"):
                dtype, shape, offset = self._layout[name]
                width = np.dtype(dtype).itemsize * math.prod(shape[1:])
                _put(self.store, offset + row * width, bytes(width))
        if isinstance(self.store, FileIO) and len(rows):
            os.fsync(self.store.fileno())

    def verify(self) -> bool:
        """Whether every row is as it was written, or erased; reads everything."""
        return all(
            np.array_equal(
                seal(self.matrix[at : at + CHUNK], self.head[at : at + CHUNK]),
                self.seals[at : at + CHUNK],
            )
            for at in range(0, len(self), CHUNK)
        )


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A snapshot still to be written: ``vectors(i)`` gives the vectors of rows ``i``.

    ``nums`` and ``realms`` are sorted by realm, then by num.
    """

    model: str
    dimensions: int
    position: int
    nums: Ints
    realms: Ints
    vectors: Callable[[Ints], Floats]

    @cached_property
    def basis(self) -> Floats:
        if len(self.nums) < REDUCE_FROM:
            return np.empty((0, self.dimensions), np.float32)
        return basis_of(self.vectors(np.linspace(0, len(self.nums) - 1, SAMPLE, dtype=np.int64)))

    def in_memory(self) -> Snapshot:
        header, body = self._small()
        store = mmap.mmap(-1, _layout(header, self.dimensions)[1])
        self._write(store, header, body)
        return Snapshot(store, store, model=self.model, dimensions=self.dimensions)

    def publish(self, path: Path) -> Snapshot | None:
        """Make this the file at ``path``, unless a newer one is there; return what is there.

        Raises ``OSError`` and leaves nothing behind when the disk says no.
        """
        import tempfile

        sweep(path)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=TEMPORARY, dir=path.parent)
        try:
            with FileIO(handle, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._write(file, *self._small())
                os.fsync(handle)
                with _directory(path.parent) as directory:
                    there = Snapshot.load(path, model=self.model, dimensions=self.dimensions)
                    if there is None or there.position < self.position:
                        os.replace(name, path)
                        os.fsync(directory)
        finally:
            Path(name).unlink(missing_ok=True)
        return Snapshot.load(path, model=self.model, dimensions=self.dimensions)

    def _small(self) -> tuple[dict[str, Any], bytearray]:
        realms, starts = np.unique(self.realms, return_index=True)
        header: dict[str, Any] = {
            "made": _made(self.model, self.dimensions),
            "position": self.position,
            "realms": len(realms),
            "rows": len(self.nums),
            "columns": len(self.basis),
        }
        layout, _ = _layout(header, self.dimensions)
        body = bytearray(layout["seals"][2] - HEADER)
        for name, array in (
            ("realms", realms),
            ("bounds", np.append(starts, len(self.nums))),
            ("nums", self.nums),
            ("order", np.argsort(self.nums, kind="stable")),
            ("basis", self.basis),
        ):
            start = layout[name][2] - HEADER
            body[start : start + array.nbytes] = array.tobytes()
        return header | {"small": zlib.crc32(body)}, body

    def _write(self, store: Store, header: dict[str, Any], body: bytearray) -> None:
        layout, size = _layout(header, self.dimensions)
        text = json.dumps(header).encode()
        _put(store, 0, PREFIX.pack(MAGIC, zlib.crc32(text), len(text)) + text)
        _put(store, HEADER, body)
        for at in range(0, len(self.nums), CHUNK):
            vectors = self.vectors(np.arange(at, min(at + CHUNK, len(self.nums))))
            head = coordinates(vectors, self.basis)
            for name, part in ("matrix", vectors), ("head", head), ("seals", seal(vectors, head)):
                width = part.nbytes // len(part)
                _put(store, layout[name][2] + at * width, part.tobytes())
        if isinstance(store, FileIO):
            store.truncate(size)


def sweep(path: Path) -> None:
    """Remove what a process that was killed while it wrote ``path`` left behind."""
    for name in glob.glob(f"{glob.escape(str(path.parent / f'.{path.name}.'))}*{TEMPORARY}"):
        with suppress(OSError), FileIO(name) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name)


def seal(vectors: Floats, head: Floats) -> NDArray[np.uint64]:
    """One hash a row: odd weights, so that no single flipped bit can hide."""
    words = np.concatenate([vectors, head], axis=1).view(np.uint32).astype(np.uint64)
    weights = np.multiply.accumulate(np.full(words.shape[1], 0x9E3779B97F4A7C15, np.uint64))
    return words @ weights


def _made(model: str, dimensions: int) -> list[object]:
    return [VERSION, sys.byteorder, hashlib.sha256(model.encode()).hexdigest(), dimensions]


def _layout(header: dict[str, Any], dimensions: int) -> tuple[Layout, int]:
    """Type, shape and offset of each array, and the size of the file."""
    rows, columns, realms = header["rows"], header["columns"], header["realms"]
    layout: Layout = {}
    end = HEADER
    for name, dtype, shape in (
        ("realms", np.int64, (realms,)),
        ("bounds", np.int64, (realms + 1,)),
        ("nums", np.int64, (rows,)),
        ("order", np.int64, (rows,)),
        ("basis", np.float32, (columns, dimensions)),
        ("seals", np.uint64, (rows,)),
        ("matrix", np.float32, (rows, dimensions)),
        ("head", np.float32, (rows, columns + 1 if columns else 0)),
    ):
        layout[name] = (dtype, shape, end)
        end += -(-math.prod(shape) * np.dtype(dtype).itemsize // 64) * 64
    return layout, end


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    """Between processes, one at a time in this directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _put(store: Store, offset: int, data: bytes | bytearray) -> None:
    store.seek(offset)
    left = memoryview(data)
    while left:
        left = left[store.write(left) :]
