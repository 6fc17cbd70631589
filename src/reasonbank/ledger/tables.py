"""Every table of a bank, for who copies all of it: what its rows are known by, and their columns.

Left out are ``meta``, which says whose bank it is rather than what is in it, and full text, which
each database keeps in its own way and makes from the memories.
"""

from __future__ import annotations

from typing import NamedTuple

from reasonbank.ledger.queries.base import EVENT


class Table(NamedTuple):
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    """Those of the key are among them."""


def _table(name: str, key: str, rest: str = "") -> Table:
    of_key = tuple(key.split(", "))
    return Table(name, of_key, (*of_key, *(rest.split(", ") if rest else ())))


MEMORIES = _table(
    "memories",
    "num",
    "id, realm, workspace, scope, state, outcome, source, created_at, initial, standing,"
    " usage_count, last_used, embedded, revision, stage, merged_into, domain, agent, task_type,"
    " error_type, failure_pattern, author, lesson, entered, since, probation, hand",
)

# The log comes first: whoever watches sees the bulk of it move.
TABLES = (
    _table("events", "seq", EVENT),
    _table("realms", "num", "key"),
    _table("models", "num", "name"),
    MEMORIES,
    _table("tags", "tag, num"),
    _table("vectors", "seq", "num, model, realm, vector"),
    _table("passages", "num, model", "vectors"),
    _table("questions", "id", "workspace, model, vector"),
    _table(
        "evidence",
        "key",
        "num, workspace, kind, positive, at, session, rater, comment, rolled, question, expected,"
        " share, counter, event, hand, witnessed",
    ),
    _table("tally", "num, workspace, kind, positive, day", "count"),
    _table("opinions", "workspace, num", "standing"),
    _table("shared_evidence", "num", "standing"),
    _table("weights", "workspace", "counts"),
    _table("authors", "workspace, author", "memories, helped, failed"),
    _table("author_tasks", "workspace, author, task", "helped, failed"),
    _table(
        "tasks",
        "workspace, session",
        "at, succeeded, reporter, counter, event, withheld, withheld_counter, withheld_event, hand",
    ),
    _table("links", "source, target, type", "strength"),
    _table("kin", "child, parent"),
    _table("tombstones", "id", "at"),
    _table("awaited", "id"),
    _table("traces", "id", "workspace, at, event, outcome"),
    _table("purged", "id", "counter, event"),
    _table("taken_back", "id", "counter, event"),
    _table("workspaces", "id", "path, name, team, org"),
    _table("paths", "digest", "workspace"),
    _table("merged", "workspace", "home"),
    _table(
        "jobs",
        "id",
        "kind, subject, workspace, state, attempts, created_at, due, claim, checkpoint, error",
    ),
    _table(
        "tokens",
        "id",
        "name, scope, workspaces, digest, created_at, created_by, expires_at, last_used,"
        " revoked_at, may",
    ),
    _table("meters", "name, cell", "amount"),
    _table("misses", "workspace, question", "asked, first, last, model, vector"),
    _table("peers", "key", "name, address, token, granted, trusted, added_at, seen_at, revoked_at"),
    _table("invitations", "id", "name, created_at, expires_at, taken_by, revoked_at"),
    _table("logs", "num", "key, epoch, channel, length, link, size, via, fork, proof, read_to"),
    _table("log_entries", "log, seq", "event, subject, link, signature, header, salt, payload"),
    _table("shared_projects", "name", "workspace"),
    _table("offers", "id", "ours, peer, state, task, most, spent, expires_at, workspace, trace"),
)
