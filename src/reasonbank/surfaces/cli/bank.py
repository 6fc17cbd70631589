"""Commands for the bank as a whole: statistics, workspaces, traces, files, care."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from reasonbank.errors import ConfirmationNeeded
from reasonbank.fields import plain
from reasonbank.model import counted
from reasonbank.store.workspaces import known
from reasonbank.surfaces.cli.output import replacing
from reasonbank.surfaces.cli.plain import add_plain
from reasonbank.surfaces.cli.shell import (
    Shell,
    command,
    common,
    confirm,
    main,
    reading,
    say,
    tell,
)

FORMATS = ("memory-json", "basic-memory", "mcp-memory-service", "mem0", "instructions")
"""Those of `learn/bring`, which need not be loaded to be named."""


@command()
@click.option("--all", "everywhere", is_flag=True, help="Count all workspaces.")
@click.option("--reset", is_flag=True, help="Reset the search counters and latencies.")
def stats(shell: Shell, everywhere: bool, reset: bool) -> None:
    """Show what is in the bank, and how it is used."""
    with shell.bank() as bank:
        if reset:
            bank.reset_statistics()
        numbers = bank.statistics(everywhere=everywhere)
    from reasonbank.surfaces.show import tables

    shell.show(numbers, lambda: tables.statistics(plain(numbers)))


_overwrite = click.option(
    "--overwrite", is_flag=True, help="Also where a file is that no export wrote."
)


@main.group(invoke_without_command=True)
@common
@click.option("--limit", type=int, default=50, show_default=True)
@click.option("--before", type=int, metavar="SEQ", help="Only entries with a lower number.")
@click.option("--author", help="Only what this author did.")
@click.option("--surface", help="Only what came through it: cli, mcp, http, library, …")
@click.option("--memory", metavar="ID", help="Only what happened to this memory.")
@click.option("--uses", is_flag=True, help="Also what searches returned.")
@click.option("--all", "everywhere", is_flag=True, help="Include all workspaces.")
@click.option("--export", "file", type=click.Path(dir_okay=False, allow_dash=True),
              help="Write every entry to a file, as JSON lines.")  # fmt: skip
@_overwrite
@click.pass_context
def audit(
    context: click.Context, /, limit: int, file: str | None, overwrite: bool, **wanted: Any
) -> None:
    """Show who changed what, when, and through which surface; newest first."""
    if context.invoked_subcommand is not None:
        return
    shell = context.ensure_object(Shell)
    if file is not None:
        return _export_audit(shell, file, overwrite, wanted)
    with shell.bank() as bank:
        changes = bank.audit(limit=limit, **wanted)
    from reasonbank.surfaces.show import tables

    shell.show(changes, lambda: tables.audit(changes))


def _export_audit(shell: Shell, file: str, overwrite: bool, wanted: dict[str, Any]) -> None:
    count = 0
    with (
        shell.bank() as bank,
        replacing(file, bank=bank.store.ledger.path, overwrite=overwrite) as out,
    ):
        while changes := bank.audit(limit=1000, **wanted):
            for change in changes:
                out.write(json.dumps(plain(change), ensure_ascii=False) + "\n")
            count += len(changes)
            wanted["before"] = changes[-1].seq
    if file != "-":
        value = {"file": file, "count": count}
        shell.show(value, lambda: say(f"Wrote {count} entries to {file}"))


@command("verify", group=audit)
def audit_verify(shell: Shell) -> None:
    """Verify that the log is what was written, and every table what the log tells.

    Exits with 5 if anything was changed behind the program's back.
    """
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with shell.bank() as bank, progress("Verifying", quiet=shell.json) as advance:
        found = bank.verify(advance)
    shell.show(found, lambda: tables.verified(found))
    if not found.sound:
        sys.exit(5)


@main.group()
def workspace() -> None:
    """List, name, move, merge, share or delete workspaces.

    ID is an id, a name or a path, also of a folder that is gone.
    """


@command("list", group=workspace)
def workspace_list(shell: Shell) -> None:
    """List all workspaces of this bank."""
    with shell.bank() as bank:
        places, here = bank.workspaces(), bank.view.workspace
    from reasonbank.surfaces.show import tables

    shell.show(places, lambda: tables.workspaces(places, here))


@command("name", group=workspace)
@click.argument("id")
@click.argument("name")
def workspace_name(shell: Shell, id: str, name: str) -> None:
    """Give a workspace a name."""

    with shell.bank() as bank:
        place = bank.name_workspace(id, name)
    shell.show(place, lambda: say(f"{place.id} is now called {name}"))


@command("move", group=workspace)
@click.argument("id")
@click.argument("path")
def workspace_move(shell: Shell, id: str, path: str) -> None:
    """Say that a workspace's directory has moved."""

    with shell.bank() as bank:
        place = bank.move_workspace(id, path)
    shell.show(place, lambda: say(f"{place.id} is now at {place.path}"))


@command("merge", group=workspace)
@click.argument("id", metavar="FROM")
@click.argument("into", metavar="INTO")
def workspace_merge(shell: Shell, id: str, into: str) -> None:
    """Make one of two workspaces: all that FROM knows belongs to INTO."""
    with shell.bank() as bank:
        place = bank.merge_workspace(id, into)
    told = f"{id} is part of {place.name or place.id} now, which has {counted(place.memories)}"
    shell.show(place, lambda: say(told))


@command("join", group=workspace)
@click.argument("id", required=False)
@click.option("--team", help="With whom it shares memories of scope team.")
@click.option("--org", help="With whom it shares memories of scope org.")
def workspace_join(shell: Shell, id: str | None, team: str | None, org: str | None) -> None:
    """Put a workspace into a team and an org [default: this one]."""
    if team is None and org is None:
        raise click.UsageError("Say which: --team, --org, or both.")
    with shell.bank(creates=True) as bank:
        place = bank.join_workspace(id, team=team, org=org)
    told = f"{place.name or place.path or place.id} is in team {place.team} of {place.org} now"
    shell.show(place, lambda: say(told))


@command("delete", group=workspace)
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def workspace_delete(shell: Shell, id: str, yes: bool) -> None:
    """Delete a workspace with all that belongs to it."""
    with shell.bank() as bank:
        place = known(bank.context.read(), id)
        try:
            bank.delete_workspace(place.id)
        except ConfirmationNeeded as warning:
            confirm(shell, yes, f"{warning}. Go on?")
        count = bank.delete_workspace(place.id, confirm=True)
    value = {"id": place.id, "memories": count, "message": "Workspace deleted"}
    shell.show(value, lambda: say(f"Deleted {id} with {counted(count)}"))


@main.group()
def trace() -> None:
    """Store, list, show or purge traces of tasks."""


@command("store", group=trace)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def trace_store(shell: Shell, file: str) -> None:
    """Store a trace: a JSON object with task, trajectory, outcome and so on."""
    from reasonbank.model import Trace

    with reading(file) as source, shell.bank(creates=True) as bank:
        stored = bank.store_trace(Trace.from_json(source.read()))
    shell.show(stored, lambda: say(f"Stored trace {stored.id}"))


@command("purge", group=trace)
@click.option("--older-than", type=int, required=True, metavar="DAYS")
def trace_purge(shell: Shell, older_than: int) -> None:
    """Remove this workspace's old traces; memories learned from them stay."""
    with shell.bank() as bank:
        count = bank.purge_traces(older_than_days=older_than)
    shell.show({"purged": count}, lambda: say(f"Purged {count} traces"))


add_plain(trace)


@command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--format", "form", type=click.Choice(["jsonl", "markdown"]),
              help="[default: by the file's ending]")  # fmt: skip
@click.option("--only-here", is_flag=True, help="Only this workspace, not the whole bank.")
@_overwrite
def export_(shell: Shell, file: str, form: str | None, only_here: bool, overwrite: bool) -> None:
    """Write the bank to a file; - is standard output.

    An earlier export is replaced, a bank or what is no regular file never.
    """
    from reasonbank.surfaces.show.progress import progress

    form = form or ("markdown" if file.endswith((".md", ".markdown")) else "jsonl")
    with (
        shell.bank() as bank,
        replacing(file, bank=bank.store.ledger.path, overwrite=overwrite) as out,
        progress("Exporting", quiet=shell.json) as advance,
    ):
        count = bank.export(out, advance, format=form, only_here=only_here)
    if file != "-":
        value = {"file": file, "format": form, "count": count}
        shell.show(value, lambda: say(f"Wrote {count} entries to {file}"))


@command("import")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--from", "form", type=click.Choice(list(FORMATS)), help="What wrote it.")
@click.option("--dry-run", is_flag=True, help="With --from: only show what would be taken.")
@click.option("--trusted", is_flag=True,
              help="You vouch for it: its memories count as yours, and of another bank's export "
                   "also authors, evidence and deletions.")  # fmt: skip
def import_(shell: Shell, file: str, form: str | None, dry_run: bool, trusted: bool) -> None:
    """Read a file that `export` wrote, or memories as JSON lines; with --from, another memory.

    This bank's own export restores everything. Of another's, only what its memories say is
    recorded, in your name, unless it is --trusted. What is not trusted is shown to who asks, and
    given to no agent unasked until you accept it: see `review`.

    \b
    --from memory-json         memory.json of MCP's reference memory server
           basic-memory        a folder of basic-memory
           mcp-memory-service  the SQLite database of mcp-memory-service
           mem0                what mem0's get_all answers, as JSON
           instructions        CLAUDE.md, AGENTS.md, .cursor/rules, or their folder
    """
    if form is not None:
        return _bring(shell, file, form, dry_run, trusted)
    if dry_run:
        raise click.UsageError("--dry-run needs --from.")
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with reading(file) as source, shell.bank(creates=True) as bank:
        with progress("Importing", quiet=shell.json) as advance:
            result = bank.import_(source, advance, trusted=trusted)
        with progress("Embedding", quiet=shell.json) as advance:
            bank.embed_new(advance)

    def draw() -> None:
        tables.facts("Imported", plain(result))
        if result.left_out:
            click.echo(
                "Another bank wrote this file: its memories are recorded in your name, and what it "
                "says of trust, authors and deletions is left out. --trusted takes all of it."
            )
        if result.batch and not trusted:
            tables.on_probation(result.batch)

    shell.show(result, draw)


def _bring(shell: Shell, file: str, form: str, dry_run: bool, trusted: bool) -> None:
    from pathlib import Path

    from reasonbank.learn.bring import bring
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with shell.bank(creates=not dry_run) as bank:
        with progress("Importing", quiet=shell.json) as advance:
            result = bring(
                bank.context, Path(file), form, dry_run=dry_run, progress=advance, trusted=trusted
            )
        if result.new and not dry_run:
            with progress("Embedding", quiet=shell.json) as advance:
                bank.embed_new(advance)
    shell.show(result, lambda: tables.brought(result, trusted=trusted))


@command()
def reindex(shell: Shell) -> None:
    """Embed every memory with the active model."""
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with shell.bank() as bank, progress("Embedding", quiet=shell.json) as advance:
        result = bank.reindex(advance)
    shell.show(result, lambda: tables.facts("Reindexed", plain(result)))


@command()
@click.option("--rebuild", is_flag=True, help="First rebuild every table from the log.")
def maintain(shell: Shell, rebuild: bool) -> None:
    """Roll up old evidence, archive what proved useless, purge old traces."""
    from reasonbank.surfaces.show import tables
    from reasonbank.surfaces.show.progress import progress

    with shell.bank() as bank:
        if rebuild:
            with progress("Rebuilding", quiet=shell.json) as advance:
                bank.rebuild(advance)
        result = bank.maintain()
    shell.show(result, lambda: tables.facts("Maintenance", plain(result)))


@command()
def doctor(shell: Shell) -> None:
    """Find what is wrong, and say the command that repairs it."""
    from reasonbank.surfaces.doctor import examine
    from reasonbank.surfaces.show import tables

    checks = examine(shell.url, shell.workspace)
    sound = all(check.status != "fail" for check in checks)
    value = {"healthy": sound, "checks": checks}
    shell.show(value, lambda: tables.checks(checks))
    if not sound:
        sys.exit(5)


@command()
def demo(shell: Shell) -> None:
    """Show the learning loop on a bank that is thrown away afterwards."""
    from reasonbank.surfaces.demo import scenes
    from reasonbank.surfaces.show import cards

    played = []
    for number, scene in enumerate(scenes(), 1):
        played.append(scene)
        if shell.json:
            continue
        click.echo()
        tell(f"{number}. {scene.what}", bold=True)
        for title in scene.learned:
            tell(f"   Learned: {title}")
        for title, before, after in scene.confidence:
            say(f"   {title}: confidence {before:.3f} → {after:.3f}")
        if scene.reply is not None:
            cards.reply(scene.reply, explain=False)
    shell.show(played, lambda: None)
