"""What the fault tests share: a bank to break, and ways to look at what is left of it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reasonbank.bank import Bank
from reasonbank.ledger.events import encode
from reasonbank.model import Memory, Outcome
from reasonbank.settings import Embed, Settings
from reasonbank.trust.belief import WHOLE

HASHED = Settings(embed=Embed(model="hashed"), author="tester")
DAY = 86_400_000_000
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None

# Children start from a process that has imported everything, and are killed without regret.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["pytest", "test_kill", "test_concurrency", "test_forgetting", "test_rebuild",
     "test_worker_kill", "test_consolidate_faults", "test_many_hands",
     "reasonbank.tidy.consolidate",
     "reasonbank.opening", "reasonbank.ledger.sqlite", "reasonbank.embed.hashed",
     "reasonbank.index.local", "reasonbank.search.answer", "reasonbank.store.transfer"]
)  # fmt: skip


def scaled(variable: str, default: int) -> int:
    return int(os.environ.get(variable, default))


def keep_count(name: str, counts: dict[str, Any]) -> None:
    """For `make soak`, which names the file: what a test has been through."""
    if file := os.environ.get("REASONBANK_TEST_COUNTS"):
        with open(file, "a", encoding="utf-8") as out:
            out.write(json.dumps({name: counts}) + "\n")


def a_memory(title: str = "Wait for the port", **known: Any) -> Memory:
    return replace(
        Memory(
            title=title,
            description="When a test talks to a server it has just started",
            content="Poll until the port answers; a fixed sleep is too short on a busy machine.",
            outcome=Outcome.SUCCESS,
        ),
        **known,
    )


def open_bank(path: Path | str, workspace: str | Path = "/project", **options: Any) -> Bank:
    """``path``, or the URL of a bank on a server."""
    settings = options.pop("settings", HASHED)
    url = f"sqlite:///{path}" if isinstance(path, Path) else path
    return Bank.open(url, workspace=workspace, settings=settings, **options)


def log_length(bank: Bank) -> int:
    return int(bank.store.ledger.read().db.one("select count(*) from events")[0])


def exported(bank: Bank, **options: Any) -> str:
    file = io.StringIO()
    bank.export(file, **options)
    return file.getvalue()


def imported(bank: Bank, text: str) -> dict[str, Any]:
    return bank.import_(io.StringIO(text), trusted=True)


def sealed(lines: list[dict[str, Any]]) -> str:
    """An export file of our own making, whose checksum is right."""
    body = "".join(encode(line) + "\n" for line in lines)
    end = {"end": True, "events": len(lines) - 1,
           "sha256": hashlib.sha256(body.encode()).hexdigest()}  # fmt: skip
    return body + encode(end) + "\n"


def files_beside(path: Path) -> list[Path]:
    return sorted(p for p in path.parent.rglob("*") if p.is_file())


def where_found(marker: str, path: Path) -> list[str]:
    """The files beside the bank that hold the marker's bytes, in either case."""
    needles = {marker.encode(), marker.lower().encode()}
    found = []
    for file in files_beside(path):
        # Read by another process: whoever closes a file loses all locks that it has on it,
        # SQLite's too, and then another program may take the bank for closed.
        data = subprocess.run(["cat", file], stdout=subprocess.PIPE, check=True).stdout
        if any(needle in data for needle in needles):
            found.append(file.name)
    return found


PARTS = (
    f"case when kind = 'outcome' then max(1, cast(round({WHOLE} * coalesce(share, 1)) as int))"
    f" else {WHOLE} end"
)
"""What a row of evidence adds to its tally."""
_DUMPED = {
    "memories": "select m.id, r.key, workspace, scope, state, outcome, source, created_at,"
    " initial, hex(standing), usage_count, last_used, revision, stage, merged_into, domain, agent,"
    " task_type, error_type, failure_pattern, author, lesson"
    " from memories m join realms r on r.num = m.realm",
    "tags": "select tag, id from tags join memories using (num)",
    "evidence": "select hex(key), id, kind, positive, at, session"
    " from evidence join memories using (num)",
    "tallies": "select id, kind, positive, day, sum(count) from ("
    " select num, kind, positive, day, count from tally where count != 0 union all"
    f" select num, kind, positive, at / 86400000000, {PARTS} from evidence where rolled = 0) each"
    " join memories using (num) group by 1, 2, 3, 4",
    "weights": "select workspace, counts from weights",
    "links": "select * from links",
    "kin": "select * from kin",
    "tombstones": "select * from tombstones",
    "traces": "select * from traces",
    "workspaces": "select * from workspaces",
    "paths": "select * from paths",
    "words": "select term, coalesce(id, 'nobody'), col, offset"
    " from temp.said left join memories on num = doc where col != 'realm'",
    "orphans": "select 'tags', num from tags where num not in (select num from memories)"
    " union all select 'evidence', num from evidence where num not in (select num from memories)"
    " union all select 'tally', num from tally where num not in (select num from memories)",
}


def projections(bank: Bank) -> dict[str, list[tuple[Any, ...]]]:
    """Every table that is made from the log, without the numbers that differ from copy to copy."""
    if bank.store.ledger.path is None:
        return _projections_of_a_server(bank)
    db = bank.store.ledger.db.handle
    said = "temp.said using fts5vocab(main, words, instance)"
    db.execute(f"create virtual table if not exists {said}")
    dump = {name: sorted(db.execute(sql).fetchall(), key=repr) for name, sql in _DUMPED.items()}
    dump["weights"] = [row for row in dump["weights"] if any(json.loads(row[-1]))]
    return dump


def _projections_of_a_server(bank: Bank) -> dict[str, list[tuple[Any, ...]]]:
    """The same in PostgreSQL's words."""
    words = (
        "select term, coalesce(id, 'nobody'), length, positions::text"
        " from words left join memories using (num)"
    )
    changes = {"hex(standing)": "encode(standing, 'hex')", "hex(key)": "encode(key, 'hex')",
               "max(1, ": "greatest(1, "}  # fmt: skip
    dump = {}
    for name, sql in (_DUMPED | {"words": words}).items():
        for theirs, ours in changes.items():
            sql = sql.replace(theirs, ours)
        found = bank.store.ledger.read().db.all(sql)
        dump[name] = sorted(map(tuple, found), key=repr)
    dump["weights"] = [row for row in dump["weights"] if any(json.loads(row[-1]))]
    return dump


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        name: ([r for r in before[name] if r not in after[name]],
               [r for r in after[name] if r not in before[name]])
        for name in before
        if before[name] != after[name]
    }  # fmt: skip


def unlike_its_log(path: Path) -> dict[str, Any]:
    """Where the tables of a closed bank differ from what its log makes of them."""
    copy = path.with_name("copy") / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(path.read_bytes())
    try:
        with open_bank(copy) as bank:
            before = projections(bank)
            bank.rebuild()
            return differences(before, projections(bank))
    finally:
        for file in copy.parent.iterdir():
            file.unlink()
        copy.parent.rmdir()


@contextlib.contextmanager
def child(target: Any, *arguments: Any) -> Iterator[Any]:
    process = processes.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.kill()
        process.join()
