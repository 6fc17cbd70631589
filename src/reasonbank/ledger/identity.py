"""Whose log a bank goes on with: its id, the ends of its chains, and its secret.

Two banks that write under one id would each continue the same chain of events, and others who
have seen one of them could not take the other's. So a bank that is not the only one, because it
was copied or brought back from a backup, goes on under a new id; the chains that it had under
earlier ones are still verified, up to where they ended.
"""

from __future__ import annotations

import json
import os

from reasonbank.ledger.database import Database
from reasonbank.model import new_id

Chain = tuple[str, bool]
"""The id of a bank, and whether it is the chain of its notes rather than of its events."""
_KEYS = ("bank_id", "half_life", "seal", "log", "former")


def identity_of(db: Database) -> dict[str, str]:
    found = dict(db.all("select key, value from meta"))
    return {key: found[key] for key in _KEYS if key in found}


def chains_of(db: Database) -> dict[Chain, str]:
    """The last link of each chain that this bank wrote, under its id and under earlier ones."""
    found = identity_of(db)
    _, head, notes = found.get("log", "0  ").split(" ")
    ends = [*json.loads(found.get("former", "[]")), (found["bank_id"], head, notes)]
    return {
        (id, note): end for id, *both in ends for note, end in zip((False, True), both, strict=True)
    }


def own_ids(db: Database) -> list[str]:
    """The ids that this bank has written under, its present one last."""
    found = identity_of(db)
    return [*(id for id, *_ in json.loads(found.get("former", "[]"))), found["bank_id"]]


def counter_of(identity: dict[str, str]) -> int:
    return int(identity.get("log", "0").split(" ")[0])


def under_a_new_id(
    identity: dict[str, str], *, counter: int = 0, id: str | None = None, secret: bool = False
) -> dict[str, str]:
    """The same bank, as it goes on beside another that has its log: after every event up to
    ``counter``; with a ``secret`` of its own if what one signs is not to be the other's."""
    _, head, notes = identity.get("log", "0  ").split(" ")
    former = [*json.loads(identity.get("former", "[]")), [identity["bank_id"], head, notes]]
    return {
        **identity,
        "bank_id": id or new_id(),
        "log": f"{max(counter, counter_of(identity))}  ",
        "former": json.dumps(former),
        **({"seal": os.urandom(32).hex()} if secret else {}),
    }


def set_identity(db: Database, identity: dict[str, str]) -> None:
    for key in _KEYS:
        db.execute("delete from meta where key = ?", (key,))
    db.many("insert into meta values (?, ?)", identity.items())
