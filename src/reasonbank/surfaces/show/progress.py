"""How far long work is: on stderr, so that what a command answers stays what it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MANY = 200
"""Fewer are done before anybody wonders."""
SECONDS = 5.0
"""Where a tenth takes longer, a line is written all the same."""


@contextmanager
def progress(label: str, *, quiet: bool, many: int = MANY) -> Iterator[Callable[[int, int], None]]:
    """A bar for who looks; for a file or a pipe, a line at each tenth of ``many`` things."""
    if quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield _Lines(label, many)


class _Lines:
    def __init__(self, label: str, many: int) -> None:
        self._label = label
        self._many = many
        self._tenth = 0
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        tenth = done * 10 // max(1, total)
        late = time.monotonic() - self._last >= SECONDS
        if late or (total >= self._many and tenth > self._tenth):
            self._last = time.monotonic()
            sys.stderr.write(f"{self._label} {done} of {total}\n")
            sys.stderr.flush()
        self._tenth = tenth
