"""Whether a bank may be written: one that was moved away, is still on its way, or is a backup
may not. Two that are written under one name would each go on with the same chain of events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from reasonbank.errors import NotInUse
from reasonbank.ledger.database import Database

KEY = "use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """``place`` is where the bank went or comes from, without its password; ``bank`` is the id
    of the bank that comes; ``copy`` the id that it gets if it is a copy."""

    state: Literal["moved", "arriving", "backup"]
    place: str = ""
    bank: str = ""
    copy: str | None = None

    @property
    def sentence(self) -> str:
        match self.state:
            case "moved":
                return (
                    f"this bank was moved to {self.place}, and can only be read here; use it there "
                    "(--bank, REASONBANK_URL or the setting url)"
                )
            case "arriving":
                return (
                    f"this bank is still on its way here from {self.place}; run the same "
                    "`reasonbank migrate` again, which goes on where it stopped"
                )
        return "this is a backup, and can only be read; `reasonbank restore` makes a bank of it"


def unused(db: Database) -> Unused | None:
    """Why it may not be written; None of a bank that is in use."""
    row = db.one("select value from meta where key = ?", (KEY,))
    return None if row is None else Unused(**json.loads(row[0]))


def set_unused(db: Database, why: Unused | None) -> None:
    db.execute("delete from meta where key = ?", (KEY,))
    if why is not None:
        db.execute("insert into meta values (?, ?)", (KEY, json.dumps(asdict(why))))


def must_be_in_use(db: Database, bank_id: str) -> None:
    """``bank_id`` is the one that whoever wants to write has opened."""
    found = dict(db.all("select key, value from meta where key in ('bank_id', ?)", (KEY,)))
    if KEY in found:
        raise NotInUse(Unused(**json.loads(found[KEY])).sentence)
    if found.get("bank_id") != bank_id:
        raise NotInUse(
            "this bank was replaced while it was open here, by a restore or a move; open it "
            "again, or restart what serves it"
        )
