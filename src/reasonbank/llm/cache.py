from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

from reasonbank.bounded import Bounded
from reasonbank.llm.port import Completion, Layer, Model, ModelCall, ModelMeters, PerLoop, Usage

if TYPE_CHECKING:
    import apsw

log = logging.getLogger(__name__)

T = TypeVar("T")


class Replies(Protocol):
    """Where replies are kept: the least recently used go first, and none outlives its time."""

    def get(self, key: str, now: float, /) -> str | None: ...

    def put(self, key: str, reply: str, now: float, /) -> int:
        """Return how many others had to go."""

    def clear(self) -> None: ...

    def close(self) -> None: ...


class Cached(Layer):
    """Answers from earlier replies, at temperature 0 only; identical calls are made once.

    Those that ask while the same call is in flight wait for it and share its reply, or its
    error. An error is not kept.
    """

    def __init__(
        self,
        inner: Model,
        *,
        replies: Replies,
        meters: ModelMeters,
        input_tokens: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``input_tokens`` is where prompts are cut: a reply to less is another reply."""
        super().__init__(inner)
        self._input_tokens = input_tokens
        self._replies = replies
        self._meters = meters
        self._clock = clock
        self._flights: PerLoop[dict[str, _Flight]] = PerLoop(dict)

    async def answer(self, call: ModelCall) -> Completion:
        if call.temperature != 0:
            self._meters.cache_bypasses += 1
            return await super().answer(call)
        key = self._key(call)
        flights = self._flights.get()
        if key in flights:
            self._meters.shared += 1
        else:
            flights[key] = _Flight(asyncio.ensure_future(self._found_or_asked(key, call)))
            flights[key].task.add_done_callback(lambda _: flights.pop(key, None))
        return await flights[key].wait()

    async def _found_or_asked(self, key: str, call: ModelCall) -> Completion:
        kept = await asyncio.to_thread(self._replies.get, key, self._clock())
        if kept is not None and (completion := _read(kept)) is not None:
            self._meters.cache_hits += 1
            return completion
        self._meters.cache_misses += 1
        completion = await super().answer(call)
        # What was cut is asked for again, perhaps with more room.
        if not completion.cut:
            self._meters.cache_evictions += await asyncio.to_thread(
                self._replies.put, key, _written(completion), self._clock()
            )
        return completion

    def _key(self, call: ModelCall) -> str:
        said = [[message.role, message.content] for message in call.messages]
        parts = [
            self.name, self._input_tokens, said, call.schema, call.max_tokens, call.effort
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def clear(self) -> None:
        """Forget every reply: one may quote what somebody wants forgotten."""
        self._replies.clear()

    async def close(self) -> None:
        self._replies.close()
        await super().close()


@dataclass(slots=True)
class _Flight:
    """A call that several wait for; it ends early only when all of them have gone."""

    task: asyncio.Future[Completion]
    waiting: int = 0

    async def wait(self) -> Completion:
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if not self.waiting and not self.task.done():
                self.task.cancel()


def _written(completion: Completion) -> str:
    return json.dumps(asdict(completion), ensure_ascii=True)


def _read(kept: str) -> Completion | None:
    try:
        data = json.loads(kept)
        return replace(Completion(**data | {"usage": Usage(**data["usage"])}), cached=True)
    except (ValueError, TypeError, KeyError):
        return None  # Another version of the program wrote it.


class MemoryReplies(Bounded[str, str]):
    def __init__(self, *, size: int = 1000, seconds: float = 86_400.0) -> None:
        super().__init__(size, seconds=seconds)
        _in_memory.add(self)

    def close(self) -> None:
        """Nothing is held open."""


_in_memory: WeakSet[MemoryReplies] = WeakSet()


def clear_memory() -> None:
    """Forget what any model of this process keeps: a bank cannot know which one quoted it."""
    for replies in list(_in_memory):
        replies.clear()


class DiskReplies:
    """Replies in a file that only its owner may read, shared by the processes that open it.

    It holds no prompts, only their hashes. It can be deleted at any time, and a file that
    cannot be used is done without: a cache never fails a call.
    """

    def __init__(self, path: Path, *, size: int = 1000, seconds: float = 86_400.0) -> None:
        self._path = path
        self._size = size
        self._seconds = seconds
        self._open: apsw.Connection | None = None
        self._lock = threading.Lock()

    def get(self, key: str, now: float) -> str | None:
        def look(db: apsw.Connection) -> str | None:
            row = db.execute(
                "UPDATE replies SET used = ? WHERE key = ? AND made > ? RETURNING reply",
                (now, key, now - self._seconds),
            ).fetchone()
            return None if row is None else str(row[0])

        return self._with(look, None)

    def put(self, key: str, reply: str, now: float) -> int:
        def keep(db: apsw.Connection) -> int:
            with db:
                db.execute(
                    "INSERT OR REPLACE INTO replies (key, reply, made, used) VALUES (?, ?, ?, ?)",
                    (key, reply, now, now),
                )
                db.execute("DELETE FROM replies WHERE made <= ?", (now - self._seconds,))
                db.execute(
                    "DELETE FROM replies WHERE key IN (SELECT key FROM replies "
                    "ORDER BY used DESC, rowid DESC LIMIT -1 OFFSET ?)",
                    (self._size,),
                )
                gone = int(db.changes())
            return gone

        return self._with(keep, 0)

    def clear(self) -> None:
        if self._path.exists():

            def empty(db: apsw.Connection) -> None:
                db.execute("DELETE FROM replies")

            self._with(empty, None)

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _with(self, work: Callable[[apsw.Connection], T], otherwise: T) -> T:
        import apsw

        with self._lock:
            try:
                if self._open is None:
                    self._open = self._connect()
                return work(self._open)
            except (apsw.Error, OSError) as error:
                log.warning("the cache of replies in %s is not used: %s", self._path, error)
                return otherwise

    def _connect(self) -> apsw.Connection:
        import apsw

        # Made before SQLite would: with permissions for the owner alone.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(5000)
        for pragma in ("journal_mode = DELETE", "synchronous = OFF", "secure_delete = ON"):
            db.execute(f"PRAGMA {pragma}")
        db.execute(
            "CREATE TABLE IF NOT EXISTS replies "
            "(key TEXT PRIMARY KEY, reply TEXT NOT NULL, made REAL NOT NULL, used REAL NOT NULL)"
        )
        db.execute("CREATE INDEX IF NOT EXISTS replies_used ON replies (used)")
        return db
