"""From settings to a bank: the one place that knows which adapters there are."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable
from pathlib import Path

from reasonbank.bank import Core
from reasonbank.embed.port import Embedder
from reasonbank.errors import InvalidSetting
from reasonbank.index.port import Index
from reasonbank.indexing import Indexing
from reasonbank.ledger.port import Ledger
from reasonbank.settings import Settings, check, default_url, load


def open_core(
    url: str | None = None,
    *,
    settings: Settings | None = None,
    read_only: bool = False,
    embedder: Embedder | None = None,
    clock: Callable[[], int] | None = None,
) -> Core:
    settings = load() if settings is None else check(settings)
    clock = clock or (lambda: time.time_ns() // 1000)
    path = sqlite_path(url or settings.url or default_url())
    from reasonbank.ledger.sqlite import SQLiteLedger

    ledger = SQLiteLedger(
        path, read_only=read_only, half_life_days=settings.belief.half_life_days, clock=clock
    )
    embedder = embedder or embedder_of(settings)
    index = local_index(path, ledger, embedder)
    indexing = Indexing(
        ledger,
        index,
        embedder,
        cache_size=settings.embed.cache_size,
        cache_seconds=settings.embed.cache_seconds,
    )
    notes = (
        ()
        if embedder.semantic
        else (f"the {embedder.name} embedder knows nothing of meaning; set embed.model to minilm",)
    )
    core = Core(ledger, indexing, settings, clock, notes)
    core.tidy = lambda: _remove_indexes(path, except_for=embedder.name)
    return core


def sqlite_path(url: str) -> Path:
    """``sqlite:///relative`` or ``sqlite:////absolute``; a bare path will do as well."""
    scheme, found, rest = url.partition("://")
    if not found:
        rest = url
    elif scheme != "sqlite":
        raise InvalidSetting("url", f"{scheme!r} is not supported; use sqlite:///path/to/bank.db")
    else:
        rest = rest.removeprefix("/") if rest.startswith("/") else rest
    if not rest or "\0" in rest:
        raise InvalidSetting("url", f"{url!r} names no file; use sqlite:///path/to/bank.db")
    try:
        path = Path(rest).expanduser().absolute()
        if path.is_dir():
            raise InvalidSetting("url", f"{path} is a directory; name a file in it")
    except (OSError, RuntimeError) as error:
        raise InvalidSetting("url", f"{url[:200]!r} is no usable path: {error}") from None
    return path


def local_index(bank: Path, ledger: Ledger, embedder: Embedder) -> Index:
    from reasonbank.index.local import LocalIndex

    path = _index_path(bank, embedder.name)
    model = f"{embedder.name} of {ledger.bank_id}"
    index = LocalIndex(path, dimensions=embedder.dimensions, model=model)
    reading = ledger.read()
    # A backup was restored, or the vectors were dropped when another model took over.
    if index.position > reading.vector_position() or not reading.has_vectors(embedder.name):
        usable = _removed(path)
        index = LocalIndex(path if usable else None, dimensions=embedder.dimensions, model=model)
    return index


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _index_path(bank: Path, model: str) -> Path:
    return bank.with_name(f"{bank.name}.{model}.index")


def _remove_indexes(bank: Path, *, except_for: str) -> None:
    """Indexes of other models may hold what was forgotten since; they can be made anew."""
    for path in bank.parent.glob(f"{glob.escape(bank.name)}.*.index"):
        if path != _index_path(bank, except_for):
            _removed(path)


def embedder_of(settings: Settings) -> Embedder:
    if settings.embed.model == "hashed":
        from reasonbank.embed.hashed import Hashed

        return Hashed()
    from reasonbank.embed.minilm import MiniLM

    return MiniLM()
