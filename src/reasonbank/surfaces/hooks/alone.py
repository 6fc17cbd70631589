"""A hook that finds no server: it opens the bank itself, and no more of it than it needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reasonbank.errors import EmbeddingError, ReasonBankError, StorageError
from reasonbank.private import account
from reasonbank.settings import Settings, load
from reasonbank.surfaces.hooks import client
from reasonbank.surfaces.hooks.answering import SILENT, Answer, answered, meant, why

if TYPE_CHECKING:
    from reasonbank.store.context import Context


def answer(call: client.Call, sink: int) -> None:
    """Write the answer to ``sink`` and close it; what is left to do then, nobody waits for."""
    # One process answers one question: threads of BLAS would cost more than they bring.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    contexts: dict[bool, Context] = {}
    told = Answer(SILENT)
    try:
        settings = load(call.environment)
        path = meant(call, settings)
        # A hook never makes a bank.
        if not path or os.path.exists(path):

            def opened(meaning: bool) -> Context:
                if meaning not in contexts and True not in contexts:
                    contexts[meaning] = _opened(call, path, settings, meaning=meaning)
                return contexts[True in contexts]

            told = answered(call, settings, opened)
    except ReasonBankError as error:
        told = Answer(why(error))
    with suppress(OSError):
        client.note(call, told.word)
    reply = client.framed(told.text.encode("utf-8", "replace"))
    while reply:
        reply = reply[os.write(sink, reply) :]
    os.close(sink)
    signal.setitimer(signal.ITIMER_REAL, client.CHILD_SECONDS)
    told.finish()
    for name in call.left_behind:
        with suppress(OSError):
            os.unlink(name)
    for context in contexts.values():
        context.store.close(embed=False)


def _opened(call: client.Call, path: str, settings: Settings, *, meaning: bool) -> Context:
    from reasonbank.opening import open_store
    from reasonbank.store.context import Context, view_of

    url = path or call.bank or settings.url
    blind: dict[str, Any] = {} if meaning else {"embedder": _NoEmbedder(), "index": _NoIndex()}
    try:
        store = open_store(url, settings=settings, create=False, **blind)
    except StorageError:
        # A full disk, or one that cannot be written: what is known can still be told.
        store = open_store(url, settings=settings, create=False, read_only=True, **blind)
    author = settings.author or os.environ.get("USER") or os.environ.get("USERNAME") or "local"
    view = view_of(store, "")
    return Context(
        store=store, view=view, path=None, author=author, identity=account(), surface="hook"
    )


class _NoEmbedder:
    """For who asks by words: numpy alone takes longer to load than all else."""

    name, dimensions, semantic = "none", 1, True

    def embed(self, texts: Sequence[str]) -> Any:
        raise EmbeddingError("this bank was opened to be asked by words alone")

    def verify(self) -> None:
        """There is nothing to look at."""


class _NoIndex:
    position = 0
    at_once = None

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise StorageError("this bank was opened to be asked by words alone")

    def close(self) -> None:
        """There is nothing to close."""
