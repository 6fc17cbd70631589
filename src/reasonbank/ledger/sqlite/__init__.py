"""The ledger on one machine: SQLite in WAL mode, every commit synced to disk."""

from reasonbank.ledger.sqlite.ledger import SQLiteLedger

__all__ = ["SQLiteLedger"]
