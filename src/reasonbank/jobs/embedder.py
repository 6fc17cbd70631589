"""What a process that stays open does for the vectors of its bank, beside all else.

It looks whether another process recorded something and has no time to embed it; and where vectors
were made by another model than the one in use, it makes them anew, so that nobody has to think of
it after an upgrade. That has time: it runs at low priority, rests as long as it works, stands back
while somebody searches, and of all processes one does it.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from contextlib import suppress

from reasonbank.errors import ReasonBankError
from reasonbank.store.context import Context
from reasonbank.store.vectors import SIP

LOOK_SECONDS = 0.25
LATER_SECONDS = 5.0
"""Another process is at it: look again then."""
TROUBLE_SECONDS = 60.0
"""A full disk, or a model that cannot be loaded: try again then."""
REST = 1.0
"""For each second of work; so 100,000 memories take some 40 minutes on two cores."""
MOST_REST = 2.0
FAREWELL_SECONDS = 5.0
NICE = 10
STEP_SECONDS = 0.05

log = logging.getLogger(__name__)


class BackgroundEmbedder:
    """From ``start`` to ``stop``, in a thread of its own."""

    def __init__(self, context: Context) -> None:
        self._indexing = context.store.indexing
        self._ledger = context.store.ledger
        self._renews = renews(context)
        self._seen: object = None
        self._due = math.inf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="embedder", daemon=True)

    def start(self) -> None:
        if not self._ledger.read_only:
            self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is under way takes a moment."""
        self._stopping.set()

    def join(self) -> None:
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(FAREWELL_SECONDS)

    def _attend(self) -> None:
        _give_way()
        while not self._stopping.is_set():
            try:
                self._look()
            except ReasonBankError as error:
                log.warning("vectors cannot be made just now: %s", error)
                self._due = time.monotonic() + TROUBLE_SECONDS
                self._stopping.wait(LATER_SECONDS)
            self._stopping.wait(LOOK_SECONDS)

    def _look(self) -> None:
        if (version := self._ledger.version()) != self._seen:
            self._seen = version
            self._indexing.look()
            if self._due == math.inf:
                self._due = time.monotonic()
        while self._renews and self._due <= time.monotonic() and not self._stopping.is_set():
            self._due = self._renewed()

    def _renewed(self) -> float:
        """Embed a few anew; when to go on."""
        if not self._ledger.read().embedded_elsewhere(self._indexing.embedder.name):
            return math.inf
        self._stand_back()
        with self._indexing.renewing.taken(seconds=0) as mine:
            if not mine:
                return time.monotonic() + LATER_SECONDS
            started = time.monotonic()
            if not self._indexing.renew(SIP):
                return math.inf
            # Within its turn, so that two processes together do not work twice as much.
            self._stopping.wait(min(REST * (time.monotonic() - started), MOST_REST))
        self._indexing.look()
        # Outside of it, so that `reindex` gets its turn.
        self._stopping.wait(STEP_SECONDS)
        return time.monotonic()

    def _stand_back(self) -> None:
        """While somebody searches, but not for ever: some servers are always asked."""
        for _ in range(round(MOST_REST / STEP_SECONDS)):
            if not self._indexing.is_asked or self._stopping.is_set():
                return
            self._stopping.wait(STEP_SECONDS)


def renews(context: Context) -> bool:
    """Whether vectors of other models are made anew unasked: not where each costs money."""
    return context.settings.embed.model != "api"


def _give_way() -> None:
    """Let all other threads go first; those that this one starts do as well."""
    if sys.platform == "linux":  # Elsewhere it would be the whole process.
        with suppress(OSError):
            thread = threading.get_native_id()
            usual = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(usual + NICE, 19))
