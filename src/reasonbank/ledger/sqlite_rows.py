"""Rows of the SQLite ledger, with its errors in our words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from reasonbank.ledger.sqlite_errors import in_words


class Rows:
    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise in_words(error, self._db.filename) from None

    def _one(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        try:
            row: tuple[Any, ...] | None = self._db.execute(sql, values).fetchone()
        except apsw.Error as error:
            raise in_words(error, self._db.filename) from None
        return row
