"""The command `reasonbank`.

Exit codes: 0 done, 1 unexpected, 2 bad input or usage, 3 not found, 4 refused,
5 storage, 6 embedding. `--json` prints one JSON value, also for errors.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reasonbank.errors import ConfirmationNeeded, InvalidInput, ReasonBankError

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.model import JSON

Command = Callable[..., Any]

# One process answers one question: threads of BLAS would cost more than they bring.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Shell:
    def __init__(self) -> None:
        self.url: str | None = None
        self.workspace: str | None = None
        self.json = False

    @contextmanager
    def bank(self, *, read_only: bool = False, surface: str = "cli") -> Iterator[Bank]:
        from reasonbank.bank import Bank

        with Bank.open(
            self.url, workspace=self.workspace, surface=surface, read_only=read_only
        ) as bank:
            yield bank

    def show(self, value: Any, human: Callable[[], None]) -> None:
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False, indent=2))
        else:
            human()


def common(command: Command) -> Command:
    """The options that may stand before or after the command's name."""

    def take(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
            shell = context.ensure_object(Shell)
            if value:
                setattr(shell, name, value)

        return callback

    options = (
        # The settings read REASONBANK_URL; here it would win over a --bank before the command.
        click.option("--bank", "url", metavar="URL", expose_value=False,
                     callback=take("url"), help="Where the bank is, e.g. sqlite:///bank.db."),
        click.option("--workspace", metavar="PATH", expose_value=False,
                     callback=take("workspace"), help="The project [default: this directory]."),
        click.option("--json", "as_json", is_flag=True, is_eager=True, expose_value=False,
                     callback=take("json"), help="Print JSON."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


class Friendly(click.Group):
    """Turns our errors into a line on stderr and an exit code."""

    def invoke(self, context: click.Context) -> Any:
        shell = context.ensure_object(Shell)
        try:
            return super().invoke(context)
        except ReasonBankError as error:
            if shell.json:
                problem: JSON = {"error": type(error).__name__, "message": str(error)}
                if isinstance(error, InvalidInput):
                    problem["field"] = error.field
                click.echo(json.dumps(problem, ensure_ascii=False))
            else:
                click.secho(f"Error: {error}", fg="red", err=True)
            context.exit(error.exit_code)
        except click.UsageError as error:
            if not shell.json:
                raise
            problem = {"error": "UsageError", "message": error.format_message()}
            click.echo(json.dumps(problem, ensure_ascii=False))
            context.exit(error.exit_code)


@click.group(cls=Friendly, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reasonbank", prog_name="reasonbank")
@common
@click.pass_context
def main(context: click.Context) -> None:
    """A memory that learns, for LLM agents.

    Search before you act; report afterwards how it went.
    """
    context.ensure_object(Shell)


def command(name: str | None = None, group: click.Group = main) -> Callable[[Command], Command]:
    """A subcommand that takes the common options and gets the shell."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            return function(click.get_current_context().find_object(Shell), *args, **options)

        return group.command(name)(common(run))

    return decorate


@command()
@click.option("--title", required=True, help="A short name.")
@click.option("--description", required=True, help="When to use it, or when not to.")
@click.option("--content", required=True, help="What to do; - reads standard input.")
@click.option("--outcome", required=True, help="success, failure or mixed.")
@click.option("--tag", "tags", multiple=True, help="May be given several times.")
@click.option("--scope", default="project", show_default=True, help="project, team or org.")
@click.option("--domain", help="The subject, e.g. databases.")
@click.option("--task-type")
@click.option("--agent")
@click.option("--difficulty")
@click.option("--parent", "parents", multiple=True, help="A memory that this one was made from.")
@click.option("--session", "source_session", help="The session it was learned in.")
@click.option("--error-type", help="For a warning: what kind of error.")
@click.option("--failure-pattern", help="For a warning: how to recognise it.")
@click.option("--guidance", help="For a warning: what to do instead.")
def record(
    shell: Shell,
    error_type: str | None,
    failure_pattern: str | None,
    guidance: str | None,
    content: str,
    **fields: Any,
) -> None:
    """Store a lesson."""
    from reasonbank.model import Memory

    if content == "-":
        content = sys.stdin.read()
    error = {
        "error_type": error_type,
        "failure_pattern": failure_pattern,
        "corrective_guidance": guidance,
    }
    given = any(value is not None for value in error.values())
    memory = Memory.from_json(
        {**fields, "content": content, "error_context": error if given else None}
    )
    with shell.bank() as bank:
        stored = bank.record(memory)
    result = {
        "id": stored.id,
        "message": "Memory recorded",
        "initial_confidence": stored.confidence,
    }
    shell.show(result, lambda: click.echo(f"Recorded {stored.id} (confidence {stored.confidence})"))


def filters(function: Command) -> Command:
    options = (
        click.option("--scope", default="all", show_default=True, help="all, project, team, org."),
        click.option("--outcome", default="all", show_default=True,
                     help="all, success, failure, mixed."),
        click.option("--tag", "tags", multiple=True, help="All that are given must be there."),
        click.option("--domain"),
        click.option("--agent"),
        click.option("--task-type"),
        click.option("--error-type", help="Only warnings of this type."),
        click.option("--source", "sources", multiple=True, help="explicit, distilled, …"),
        click.option("--state", default="active", show_default=True,
                     help="active, archived or all."),
        click.option("--newer-than", type=float, metavar="DAYS"),
        click.option("--older-than", type=float, metavar="DAYS"),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def make_filter(options: dict[str, Any]) -> Any:
    """Takes the filter options out of ``options``."""
    import time

    from reasonbank.ledger.port import Filter
    from reasonbank.model import Outcome, Scope, Source, State, choice

    def several(kind: Any, value: str, name: str) -> tuple[Any, ...]:
        if value == "all":
            return tuple(kind)
        try:
            return (choice(kind, value, name),)
        except InvalidInput as error:
            raise InvalidInput(name, f"{str(error).partition(': ')[2]}, all") from None

    def ago(days: float | None, name: str) -> int | None:
        if days is None:
            return None
        if not 0 <= days <= 1_000_000:
            raise InvalidInput(name, f"{days!r} is no number of days")
        return int((time.time() - days * 86400) * 1_000_000)

    outcome = options.pop("outcome")
    return Filter(
        scopes=several(Scope, options.pop("scope"), "scope"),
        states=several(State, options.pop("state"), "state"),
        outcomes=() if outcome == "all" else several(Outcome, outcome, "outcome"),
        sources=tuple(choice(Source, s, "source") for s in options.pop("sources")),
        tags=options.pop("tags"),
        domain=options.pop("domain"),
        agent=options.pop("agent"),
        task_type=options.pop("task_type"),
        error_type=options.pop("error_type"),
        created_after=ago(options.pop("newer_than"), "newer-than"),
        created_before=ago(options.pop("older_than"), "older-than"),
    )


@command()
@click.argument("query")
@click.option("--limit", type=int, help="At most this many [default: 5].")
@click.option("--min-confidence", type=float, help="0 to 1 [default: 0.3].")
@click.option("--max-tokens", type=int, help="The most that the answer may cost a model.")
@click.option("--session", help="The task at hand, to credit its outcome later.")
@click.option("--explain", is_flag=True, help="Show every part of every score.")
@click.option("--follow-links", is_flag=True, help="Add what the hits are linked to.")
@filters
def search(shell: Shell, query: str, **options: Any) -> None:
    """Find memories that fit a question or a task."""
    chosen = make_filter(options)
    with shell.bank() as bank:
        reply = bank.search(query, filter=chosen, **options)

    def draw() -> None:
        from reasonbank.surfaces import cards

        cards.reply(reply, explain=options["explain"])

    shell.show(reply.to_json(), draw)


@command("list")
@click.option("--limit", type=int, default=50, show_default=True)
@filters
def list_(shell: Shell, limit: int, **options: Any) -> None:
    """List the newest memories."""
    chosen = make_filter(options)
    with shell.bank() as bank:
        memories = bank.memories(chosen, limit=limit)
    from reasonbank.surfaces import tables

    shell.show([m.to_json() for m in memories], lambda: tables.memories(memories))


@command()
@click.argument("id")
def show(shell: Shell, id: str) -> None:
    """Show a memory with its evidence and links."""
    with shell.bank() as bank:
        memory, evidence, links = bank.get(id), bank.evidence(id), bank.links(id)
    from reasonbank.surfaces import tables

    value = memory.to_json() | {
        "evidence": [tables.plain(e) for e in evidence],
        "links": [tables.plain(link) for link in links],
    }
    shell.show(value, lambda: tables.memory(memory, evidence, links))


@command()
@click.argument("id")
@click.option("--title")
@click.option("--description")
@click.option("--content")
@click.option("--outcome")
@click.option("--tag", "tags", multiple=True, help="Replaces all tags.")
@click.option("--domain")
@click.option("--task-type")
@click.option("--agent")
@click.option("--difficulty")
def update(shell: Shell, id: str, tags: tuple[str, ...], **fields: str | None) -> None:
    """Change a memory; earlier revisions are kept."""
    changes: dict[str, Any] = {k: v for k, v in fields.items() if v is not None}
    if tags:
        changes["tags"] = tags
    if not changes:
        raise InvalidInput("update", "nothing to change; give at least one field, e.g. --title")
    with shell.bank() as bank:
        memory = bank.update(id, **changes)
    shell.show(memory.to_json(), lambda: click.echo(f"Updated {id} (revision {memory.revision})"))


@command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(shell: Shell, id: str, yes: bool) -> None:
    """Remove a memory's content for good."""
    with shell.bank() as bank:
        title = bank.get(id).title
        confirm(shell, yes, f"Forget “{title}” for good?")
        bank.forget(id)
    shell.show({"id": id, "message": "Memory forgotten"}, lambda: click.echo(f"Forgot {id}"))


def confirm(shell: Shell, yes: bool, question: str) -> None:
    if yes:
        return
    if shell.json or not sys.stdin.isatty():
        raise ConfirmationNeeded(f"{question} Say so with --yes")
    if not click.confirm(question):
        raise ConfirmationNeeded("nothing was changed")


@command()
@click.argument("id")
def history(shell: Shell, id: str) -> None:
    """List all revisions of a memory."""
    with shell.bank() as bank:
        revisions = bank.history(id)
    from reasonbank.surfaces import tables

    shell.show([tables.plain(r) for r in revisions], lambda: tables.history(revisions))


@command()
@click.argument("id")
@click.option("--to", type=int, help="The revision to return to [default: the one before].")
def undo(shell: Shell, id: str, to: int | None) -> None:
    """Take back the last change of a memory."""
    with shell.bank() as bank:
        memory = bank.undo(id, to=to)
    shell.show(
        memory.to_json(), lambda: click.echo(f"“{memory.title}” is as before ({memory.state})")
    )


@command()
@click.argument("id")
def archive(shell: Shell, id: str) -> None:
    """Take a memory out of normal search."""
    with shell.bank() as bank:
        memory = bank.archive(id)
    shell.show(memory.to_json(), lambda: click.echo(f"Archived “{memory.title}”"))


@command()
@click.argument("id")
def restore(shell: Shell, id: str) -> None:
    """Bring an archived memory back."""
    with shell.bank() as bank:
        memory = bank.restore(id)
    shell.show(memory.to_json(), lambda: click.echo(f"Restored “{memory.title}”"))


def verdict(positive: str, negative: str) -> Callable[[Command], Command]:
    return click.option(f"--{positive}/--{negative}", "verdict", default=None, help="Which?")


def moved(shell: Shell, what: str, id: str, change: Callable[[Bank], Any]) -> None:
    """Report how an observation moved a memory's confidence."""
    with shell.bank() as bank:
        before = bank.get(id).confidence
        after = change(bank).confidence
    value = {"id": id, "message": f"{what} recorded", "old_confidence": before,
             "new_confidence": after}  # fmt: skip
    shell.show(value, lambda: click.echo(f"{what} recorded: confidence {before:.3f} → {after:.3f}"))


def needed(value: bool | None, name: str) -> bool:
    if value is None:
        raise InvalidInput(name, "say which")
    return value


@command()
@click.argument("id")
@verdict("helpful", "unhelpful")
@click.option("--comment")
@click.option("--session", help="Rating twice in one session counts once.")
def feedback(
    shell: Shell, id: str, verdict: bool | None, comment: str | None, session: str | None
) -> None:
    """Rate a memory."""
    helpful = needed(verdict, "--helpful or --unhelpful")
    moved(
        shell, "Feedback", id,
        lambda bank: bank.feedback(id, helpful=helpful, comment=comment, session=session),
    )  # fmt: skip


@command()
@click.argument("id", required=False)
@verdict("succeeded", "failed")
@click.option("--session", help="The task; without ID, all that its searches returned.")
def outcome(shell: Shell, id: str | None, verdict: bool | None, session: str | None) -> None:
    """Say how the task went that used a memory."""
    succeeded = needed(verdict, "--succeeded or --failed")
    if id is None:
        if session is None:
            raise InvalidInput("id", "give a memory's id, or --session for all that it used")
        with shell.bank() as bank:
            count = bank.credit(session, succeeded=succeeded)
        shell.show({"credited": count}, lambda: click.echo(f"Credited {count} memories"))
        return
    memory = id
    moved(
        shell, "Outcome", memory,
        lambda bank: bank.outcome(memory, succeeded=succeeded, session=session),
    )  # fmt: skip


@command()
@click.argument("id")
@verdict("kept", "reverted")
@click.option("--session")
def stability(shell: Shell, id: str, verdict: bool | None, session: str | None) -> None:
    """Say whether the code that a memory led to was kept."""
    kept = needed(verdict, "--kept or --reverted")
    moved(shell, "Stability", id, lambda bank: bank.stability(id, kept=kept, session=session))


@command()
@click.argument("task")
def recommend(shell: Shell, task: str) -> None:
    """Name the best strategy for a task, and why."""
    with shell.bank() as bank:
        advice = bank.recommend(task)
    from reasonbank.surfaces import tables

    shell.show(advice, lambda: tables.advice(advice))


@command()
@click.argument("source")
@click.argument("target")
@click.option("--type", "kind", default="similar", show_default=True,
              help="similar, contradicts, causes, analogy or co_used.")  # fmt: skip
@click.option("--strength", type=float, default=1.0, show_default=True)
@click.option("--remove", is_flag=True, help="Remove the link instead.")
def link(shell: Shell, source: str, target: str, kind: str, strength: float, remove: bool) -> None:
    """Link two memories."""
    with shell.bank() as bank:
        if remove:
            bank.unlink(source, target, type=kind)
        else:
            bank.link(source, target, type=kind, strength=strength)
    verb = "Removed" if remove else "Linked"
    value = {"source": source, "target": target, "type": kind, "strength": strength,
             "message": verb}  # fmt: skip
    shell.show(value, lambda: click.echo(f"{verb}: {source} {kind} {target}"))


@command()
@click.argument("id")
def genealogy(shell: Shell, id: str) -> None:
    """Show a memory's ancestors and descendants."""
    with shell.bank() as bank:
        tree = bank.genealogy(id)
    from reasonbank.surfaces import tables

    shell.show(tables.plain(tree), lambda: tables.genealogy(tree))


@command()
@click.option("--all", "everywhere", is_flag=True, help="Count all workspaces.")
def stats(shell: Shell, everywhere: bool) -> None:
    """Show what is in the bank."""
    with shell.bank() as bank:
        numbers = bank.statistics(everywhere=everywhere)
    from reasonbank.surfaces import tables

    shell.show(numbers, lambda: tables.facts("Statistics", numbers))


@main.group()
def workspace() -> None:
    """List, name, move or delete workspaces."""


@command("list", group=workspace)
def workspace_list(shell: Shell) -> None:
    """List all workspaces of this bank."""
    with shell.bank() as bank:
        places, here = bank.workspaces(), bank.view.workspace
    from reasonbank.surfaces import tables

    shell.show([tables.plain(p) for p in places], lambda: tables.workspaces(places, here))


@command("name", group=workspace)
@click.argument("id")
@click.argument("name")
def workspace_name(shell: Shell, id: str, name: str) -> None:
    """Give a workspace a name."""
    from reasonbank.surfaces import tables

    with shell.bank() as bank:
        place = bank.name_workspace(id, name)
    shell.show(tables.plain(place), lambda: click.echo(f"{place.id} is now called {name}"))


@command("move", group=workspace)
@click.argument("id")
@click.argument("path")
def workspace_move(shell: Shell, id: str, path: str) -> None:
    """Say that a workspace's directory has moved."""
    from reasonbank.surfaces import tables

    with shell.bank() as bank:
        place = bank.move_workspace(id, path)
    shell.show(tables.plain(place), lambda: click.echo(f"{place.id} is now at {place.path}"))


@command("delete", group=workspace)
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask.")
def workspace_delete(shell: Shell, id: str, yes: bool) -> None:
    """Delete a workspace with all that belongs to it."""
    with shell.bank() as bank:
        try:
            bank.delete_workspace(id)
        except ConfirmationNeeded as warning:
            confirm(shell, yes, f"{warning}. Go on?")
        count = bank.delete_workspace(id, confirm=True)
    value = {"id": id, "memories": count, "message": "Workspace deleted"}
    shell.show(value, lambda: click.echo(f"Deleted {id} with {count} memories"))


@main.group()
def trace() -> None:
    """Store, list, show or purge traces of tasks."""


@command("store", group=trace)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def trace_store(shell: Shell, file: str) -> None:
    """Store a trace: a JSON object with task, trajectory, outcome and so on."""
    from reasonbank.model import Trace

    with reading(file) as source, shell.bank() as bank:
        stored = bank.store_trace(Trace.from_json(source.read()))
    shell.show({"id": stored.id, "message": "Trace stored"},
               lambda: click.echo(f"Stored trace {stored.id}"))  # fmt: skip


@command("list", group=trace)
@click.option("--limit", type=int, default=50, show_default=True)
def trace_list(shell: Shell, limit: int) -> None:
    """List this workspace's newest traces."""
    from reasonbank.surfaces import tables

    with shell.bank() as bank:
        found = bank.traces(limit=limit)
    shell.show([t.to_json() for t in found], lambda: tables.traces(found))


@command("show", group=trace)
@click.argument("id")
def trace_show(shell: Shell, id: str) -> None:
    """Show a trace with its steps."""
    from reasonbank.surfaces import tables

    with shell.bank() as bank:
        found = bank.trace(id)
    shell.show(found.to_json(), lambda: tables.trace(found))


@command("purge", group=trace)
@click.option("--older-than", type=int, required=True, metavar="DAYS")
def trace_purge(shell: Shell, older_than: int) -> None:
    """Remove this workspace's old traces; memories learned from them stay."""
    with shell.bank() as bank:
        count = bank.purge_traces(older_than_days=older_than)
    shell.show({"purged": count}, lambda: click.echo(f"Purged {count} traces"))


@command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--format", "form", type=click.Choice(["jsonl", "markdown"]),
              help="[default: by the file's ending]")  # fmt: skip
@click.option("--only-here", is_flag=True, help="Only this workspace, not the whole bank.")
def export_(shell: Shell, file: str, form: str | None, only_here: bool) -> None:
    """Write the bank to a file."""
    form = form or ("markdown" if file.endswith((".md", ".markdown")) else "jsonl")
    with shell.bank() as bank, replacing(file) as out:
        count = bank.export(out, format=form, only_here=only_here)
    if file != "-":
        value = {"file": file, "format": form, "count": count}
        shell.show(value, lambda: click.echo(f"Wrote {count} entries to {file}"))


@contextmanager
def replacing(file: str) -> Iterator[Any]:
    """Write beside the file and put it in place when it is whole."""
    if file == "-":
        yield sys.stdout
        return
    part = Path(f"{file}.part")
    try:
        with part.open("w", encoding="utf-8") as out:
            yield out
        part.replace(file)
    except OSError as error:
        raise InvalidInput("file", f"cannot write {file}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def reading(file: str) -> Iterator[Any]:
    try:
        source = sys.stdin if file == "-" else open(file, encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise InvalidInput("file", f"cannot read {file}: {error.strerror}") from None
    with source:
        try:
            yield source
        except UnicodeDecodeError:
            raise InvalidInput("file", f"{file} is not UTF-8 text") from None


@command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def import_(shell: Shell, file: str) -> None:
    """Read a file that `export` wrote, or memories as JSON lines."""
    from reasonbank.surfaces import tables

    with reading(file) as source, shell.bank() as bank:
        with tables.progress("Importing", quiet=shell.json) as advance:
            result = bank.import_(source, advance)
        with tables.progress("Embedding", quiet=shell.json) as advance:
            bank.embed_new(advance)
    shell.show(result, lambda: tables.facts("Imported", result))


@command()
def reindex(shell: Shell) -> None:
    """Embed every memory with the active model."""
    from reasonbank.surfaces import tables

    with shell.bank() as bank, tables.progress("Embedding", quiet=shell.json) as advance:
        result = bank.reindex(advance)
    shell.show(result, lambda: tables.facts("Reindexed", result))


@command()
@click.option("--rebuild", is_flag=True, help="First make every table anew from the log.")
def maintain(shell: Shell, rebuild: bool) -> None:
    """Roll up old evidence, archive what proved useless, purge old traces."""
    with shell.bank() as bank:
        if rebuild:
            bank.rebuild()
        result = bank.maintain()
    from reasonbank.surfaces import tables

    shell.show(result, lambda: tables.facts("Maintenance", result))


@command()
def doctor(shell: Shell) -> None:
    """Find what is wrong, and say the command that repairs it."""
    from reasonbank.surfaces import tables
    from reasonbank.surfaces.doctor import examine

    checks = examine(shell.url, shell.workspace)
    sound = all(check.status != "fail" for check in checks)
    value = {"healthy": sound, "checks": [tables.plain(check) for check in checks]}
    shell.show(value, lambda: tables.checks(checks))
    if not sound:
        sys.exit(5)


@command()
def demo(shell: Shell) -> None:
    """Show the learning loop on a bank that is thrown away afterwards."""
    from reasonbank.surfaces import cards
    from reasonbank.surfaces.demo import scenes
    from reasonbank.surfaces.tables import plain

    shown = []
    for number, scene in enumerate(scenes(), 1):
        if shell.json:
            shown.append(plain(scene))
            continue
        click.secho(f"\n{number}. {scene.what}", bold=True)
        for title, before, after in scene.confidence:
            click.echo(f"   {title}: confidence {before:.3f} → {after:.3f}")
        if scene.reply is not None:
            cards.reply(scene.reply, explain=False)
    if shell.json:
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))


@command()
@click.option("--tools", type=click.Choice(["all", "core"]), default="all", show_default=True,
              help="core: only search, record and outcome.")  # fmt: skip
def mcp(shell: Shell, tools: str) -> None:
    """Serve an agent over standard input and output (MCP).

    A call's workspace is its own parameter, else --workspace, else the client's root, else
    this directory.
    """
    with shell.bank(surface="mcp") as bank:
        from reasonbank.surfaces.mcp import run_stdio

        run_stdio(bank, tools=tools, roots=shell.workspace is None)


if __name__ == "__main__":
    main()
