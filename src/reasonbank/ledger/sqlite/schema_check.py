"""Whether a bank has the tables that its version says it has.

Released steps never change, so this only fails for a bank that a development state wrote
between two of them; without it, the first query that needs what is not there would fail.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from reasonbank.errors import StorageError
from reasonbank.ledger.database import Database
from reasonbank.ledger.migrations import upgrade
from reasonbank.ledger.sqlite.connection import Connection

USUAL = "8d77c2c10671b152"
"""The shape that all steps make, as a hash: to make them anew takes 2 ms. What is not usual is
compared in full, so that a hash that is out of date costs time, and refuses nothing."""

KEYS = ("bank_id", "half_life", "seal")
"""What every bank has in its table ``meta``."""

Shape = dict[str, str | None]
"""The columns of each table; an index has none."""

_SHAPE = (
    "select m.name, group_concat(c.name order by c.cid) from sqlite_schema m"
    " left join pragma_table_info(m.name) c on m.type = 'table'"
    " where m.type in ('table', 'index') and m.name not like 'sqlite!_%' escape '!'"
    # Full text can be missing: a search does without, and a rebuild makes it anew.
    " and m.name != 'words' and m.name not like 'words!_%' escape '!'"
    " group by m.name order by m.name"
)


def check_schema(db: Database, path: Path) -> None:
    """Raises ``StorageError`` unless the bank is as this program's steps would have made it."""
    found = shape_of(db)
    wrong = [] if hash_of(found) == USUAL else _differences(found)
    if not wrong:
        keys = {key for (key,) in db.all("select key from meta")}
        wrong = [f"meta without {key}" for key in KEYS if key not in keys]
    if wrong:
        raise unlike_its_version(path, ", ".join(wrong))


def unlike_its_version(path: Path, wrong: str) -> StorageError:
    return StorageError(
        f"{path} is not made like a bank of its version ({wrong}): a development state of "
        "ReasonBank wrote it. Nothing was changed; `reasonbank export` it with the program that "
        "wrote it, and `reasonbank import` that into a new bank"
    )


def shape_of(db: Database) -> Shape:
    return {str(name): columns for name, columns in db.all(_SHAPE)}


def hash_of(shape: Shape) -> str:
    return hashlib.sha256(repr(shape).encode()).hexdigest()[:16]


def usual_shape() -> Shape:
    db = Connection(Path(":memory:"), vfs=None)
    try:
        upgrade(db, 0, 1.0)
        return shape_of(db)
    finally:
        db.close()


def _differences(found: Shape) -> list[str]:
    """What is missing, and columns that nobody here would fill; further tables do no harm."""
    return [
        _difference(name, columns, found[name]) if name in found else f"no {name}"
        for name, columns in usual_shape().items()
        if name not in found or found[name] != columns
    ]


def _difference(name: str, wanted: str | None, found: str | None) -> str:
    have, want = (set(filter(None, (each or "").split(","))) for each in (found, wanted))
    told = [f"without {column}" for column in sorted(want - have)]
    told += [f"with {column}" for column in sorted(have - want)]
    return f"{name} {' and '.join(told) or 'in another order'}"
