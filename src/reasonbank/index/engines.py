"""The indexes on servers, put together; what each needs to be told."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from reasonbank.embed.calibration import calibration_for
from reasonbank.embed.port import Embedder
from reasonbank.errors import InvalidSetting, StorageError
from reasonbank.index.address import Address, Held, Unavailable
from reasonbank.index.served import Engine, ServedIndex
from reasonbank.ledger.port import Ledger
from reasonbank.llm.http import key_in
from reasonbank.settings import IndexSettings


def qdrant(at: Address, ledger: Ledger, embedder: Embedder, settings: IndexSettings) -> ServedIndex:
    from reasonbank.index.qdrant import QdrantEngine

    collection, family = _collection(ledger, embedder)
    held = _held(at.folder)
    engine = QdrantEngine(
        at.folder or at.server,
        collection=collection,
        family=family,
        dimensions=embedder.dimensions,
        settings=settings,
        key=_key(settings, "QDRANT_API_KEY"),
    )
    return _served(engine, embedder, settings, held)


def chroma(at: Address, ledger: Ledger, embedder: Embedder, settings: IndexSettings) -> ServedIndex:
    from reasonbank.index.chroma import ChromaEngine, Folder, Server

    collection, family = _collection(ledger, embedder)
    there: Server | Folder
    held = None
    if at.server:
        there = Server(at.server, settings=settings, key=_key(settings, "CHROMA_API_KEY"))
    else:
        folder = at.folder or _beside(ledger)
        held = _held(folder)
        there = Folder(folder)
    engine = ChromaEngine(
        there,
        name=there.name,
        collection=collection,
        family=family,
        dimensions=embedder.dimensions,
    )
    return _served(engine, embedder, settings, held)


def pgvector(ledger: Ledger, embedder: Embedder, settings: IndexSettings) -> ServedIndex:
    from reasonbank.index.pgvector import PgvectorEngine, extension
    from reasonbank.ledger.postgres import PostgresLedger

    if not isinstance(ledger, PostgresLedger):
        raise Unavailable("the ledger is not in PostgreSQL")
    engine = PgvectorEngine(
        ledger.pool,
        schema=extension(ledger.pool, dimensions=embedder.dimensions),
        table=f"nearest_{_digest(embedder)}_{embedder.dimensions}",
        dimensions=embedder.dimensions,
        settings=settings,
    )
    return _served(engine, embedder, settings)


def _served(
    engine: Engine, embedder: Embedder, settings: IndexSettings, held: Held | None = None
) -> ServedIndex:
    pause = settings.retry_seconds
    return ServedIndex(engine, dimensions=embedder.dimensions, pause=pause, held=held)


def _beside(ledger: Ledger) -> Path:
    if (bank := ledger.beside) is None:
        told = "says ?index=chroma, and has no folder for it; use ?index=chroma+file:///folder"
        raise InvalidSetting("url", told)
    return bank.with_name(f"{bank.name}.chroma")


def _held(folder: Path | None) -> Held | None:
    if folder is None:
        return None
    try:
        held = Held(folder)
    except OSError as error:
        raise StorageError(f"the folder {folder} cannot be used: {error.strerror}") from None
    if not held.is_mine():
        # What a process sees of another's folder is stale; the ledger never is.
        raise Unavailable(f"another process uses {folder}, which is for one at a time")
    return held


def _key(settings: IndexSettings, usual: str) -> str | None:
    variable = settings.key_env or (usual if os.environ.get(usual) else "")
    key = key_in(os.environ, variable, setting="index.key_env")
    return None if key is None else key.value


def _collection(ledger: Ledger, embedder: Embedder) -> tuple[str, str]:
    """What the vectors of a bank and a model are called on a server, and how all of the same
    bank begin."""
    family = f"reasonbank-{ledger.bank_id}-"
    return f"{family}{_digest(embedder)}-{embedder.dimensions}", family


def _digest(embedder: Embedder) -> str:
    """One that follows more models than before begins anew."""
    followed = (embedder.name, *calibration_for(embedder.name).compatible)
    return sha256("\n".join(followed).encode()).hexdigest()[:12]
