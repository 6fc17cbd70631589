"""Commands that take a whole bank somewhere else: to another database, to a file, and back.

They are the operator's, who can read and write both places: no server offers them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reasonbank.surfaces.cli.shell import Shell, command, say, tell

if TYPE_CHECKING:
    from reasonbank.store.moving import Steps

_ID = re.compile(r"[0-9a-fA-F-]{1,36}")


@command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--copy", is_flag=True, help="Leave the bank where it is; the copy gets an id.")
def migrate(shell: Shell, source: str, target: str, copy: bool) -> None:
    """Move a bank to another database, and verify it there; SRC and DST are URLs or files.

    The bank may be used meanwhile. At the end SRC can only be read, and says where the bank is
    now. Interrupted, the same command goes on.
    """
    from reasonbank import moves
    from reasonbank.settings import load
    from reasonbank.surfaces.show import tables

    done = moves.migrate(source, target, load(), _steps(shell), copy=copy)

    def draw() -> None:
        if done.already:
            say(f"{done.source} was moved to {done.target} already")
            return
        tables.facts("Copied" if copy else "Moved", _facts(done.rows, done.digest))
        if copy:
            tell(f"{done.target} is a bank of its own now, {done.bank}; {done.source} stays.")
            return
        tell(
            f"The bank is at {done.target} now: set REASONBANK_URL or the setting url, and restart "
            f"what serves it. {done.source} can only be read; delete it when you miss nothing."
        )

    shell.show(done, draw)


@command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--overwrite", is_flag=True, help="In the place of an earlier backup.")
def backup(shell: Shell, file: str, overwrite: bool) -> None:
    """Write the whole bank to a file, as it is at this moment, while it is used.

    The file is a SQLite database, whatever keeps the bank, and readable by you alone. It holds
    all that the bank holds, the digests of tokens included.
    """
    from reasonbank import moves
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        bank.store.try_to_flush()
        done = moves.back_up(
            bank.store.ledger, Path(file), bank.store.settings, _steps(shell), overwrite=overwrite
        )

    def draw() -> None:
        tables.facts("Backed up", _facts(done.rows, done.digest))
        say(f"Wrote {done.file}")

    shell.show(done, draw)


@command()
@click.argument("what", metavar="ID|FILE")
@click.option("--force", is_flag=True, help="Of a backup: replace what the bank holds.")
def restore(shell: Shell, what: str, force: bool) -> None:
    """Bring an archived memory back, or a bank from its backup.

    Give the id of the memory, or a file that `backup` wrote (as ./FILE if its name could be an
    id). A bank is replaced as a whole, or stays as it was.
    """
    if _ID.fullmatch(what):
        with shell.bank() as bank:
            memory = bank.restore(what)
        shell.show(memory, lambda: say(f"Restored “{memory.title}”"))
        return
    from reasonbank import moves
    from reasonbank.settings import load
    from reasonbank.surfaces.show import tables

    done = moves.restore(Path(what), shell.url, load(), _steps(shell), force=force)

    def draw() -> None:
        tables.facts("Restored", _facts(done.rows, None))
        tell(
            f"{done.target} is as it was at {done.at:%Y-%m-%d %H:%M} UTC. Restart what serves it; "
            f"what it writes from now on, it writes under a new id, {done.bank}."
        )

    shell.show(done, draw)


def _steps(shell: Shell) -> Steps:
    from reasonbank.surfaces.show.progress import progress

    return lambda label: progress(label, quiet=shell.json)


def _facts(rows: dict[str, int], digest: str | None) -> dict[str, object]:
    shown = ("memories", "events", "evidence", "traces", "vectors", "workspaces", "tokens", "jobs")
    facts: dict[str, object] = {name: rows[name] for name in shown if rows.get(name)}
    facts["rows in all"] = sum(rows.values())
    if digest is not None:
        facts["verified"] = f"{len(rows)} tables, checksum {digest}"
    return facts
