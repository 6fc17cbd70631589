"""A store that was open when its process was forked is the parent's alone.

The child has copies of its locks, which the parent's threads may have held, and of what waits
there to be written, which the parent will write.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from reasonbank.errors import StorageError
from reasonbank.store.context import Store

_open: weakref.WeakSet[Store] = weakref.WeakSet()


class Inherited(Store):
    """What an open store becomes in a child: of no use, and harmless."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("close", "__class__"):
            return object.__getattribute__(self, name)
        raise StorageError(
            "this bank was opened before the process was forked, and belongs to the parent; open "
            "it in a process that multiprocessing started with spawn or forkserver"
        )

    def close(self, *, embed: bool) -> None:
        """The parent will do so."""


def watch(store: Store) -> None:
    _open.add(store)


def _in_child() -> None:
    for store in list(_open):
        if not store.closed:
            store.__class__ = Inherited
    _open.clear()


if hasattr(os, "register_at_fork"):  # Windows knows no forks.
    os.register_at_fork(after_in_child=_in_child)
