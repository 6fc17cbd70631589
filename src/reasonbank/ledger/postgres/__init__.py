"""The ledger for many machines: PostgreSQL, every commit on its disk before it is told."""

from reasonbank.ledger.postgres.ledger import PostgresLedger

__all__ = ["PostgresLedger"]
