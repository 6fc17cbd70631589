"""Banks for tests on every backend, opened as those in a file are by ``tests.conftest``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reasonbank import Bank, Settings
from reasonbank.index.address import split
from reasonbank.settings import IndexSettings
from tests.conftest import HASHED, Clock, Opener

PATIENT = IndexSettings(timeout_seconds=60.0, retry_seconds=0.0)
"""A busy machine is no reason to do without the index."""


class Elsewhere(Opener):
    """``place`` tells the URL of a bank that nobody has used yet, by its name."""

    def __init__(self, folder: Path, clock: Clock, place: Callable[[str], str]) -> None:
        super().__init__(folder, clock)
        self._place = place
        self._urls: dict[str, str] = {}

    def url(self, name: str = "bank") -> str:
        if name not in self._urls:
            self._urls[name] = self._place(name)
        return self._urls[name]

    def __call__(self, name: str = "bank", *, settings: Settings = HASHED, **options: Any) -> Bank:
        bank = super().__call__(name, settings=replace(settings, index=PATIENT), **options)
        index = split(self.url(name))[1].partition("+")[0]
        # Never another in its place, about which only the notes of a reply would speak.
        assert index.removeprefix("local") in bank.store.indexing.index.name.lower()
        return bank
