"""No fork falls into the middle of a computation.

numpy's OpenBLAS ends its threads before a fork and waits for them. Where another thread computes
just then, it waits for ever, and the program hangs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 5.0
"""Seconds that a fork waits for what is computed, which may itself wait for whoever forks."""


class _Gate:
    def __init__(self) -> None:
        self.mine = threading.local()
        self.begin()

    def begin(self) -> None:
        """Also in a child, where the parent's threads, which may have held the lock, are not."""
        self.changed = threading.Condition()
        self.forking = False
        self.computing = self.own

    @property
    def own(self) -> int:
        """How many of those that compute are this thread."""
        return int(getattr(self.mine, "computes", False))

    @contextmanager
    def computation(self) -> Iterator[None]:
        if self.own:
            yield
            return
        with self.changed:
            self.changed.wait_for(lambda: not self.forking, LONGEST)
            self.computing += 1
        self.mine.computes = True
        try:
            yield
        finally:
            self.mine.computes = False
            with self.changed:
                self.computing -= 1
                self.changed.notify_all()

    def before_fork(self) -> None:
        own = self.own
        with self.changed:
            self.forking = True
            self.changed.wait_for(lambda: self.computing <= own, LONGEST)

    def after_fork(self) -> None:
        with self.changed:
            self.forking = False
            self.changed.notify_all()


_gate = _Gate()
computation = _gate.computation
"""What is done within is not split by a fork; it should not take long."""

if hasattr(os, "register_at_fork"):  # Windows knows no forks.
    os.register_at_fork(
        before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.begin
    )
