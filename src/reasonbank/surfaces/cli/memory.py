"""Commands for memories: record, search, rate, correct, link."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from reasonbank.arguments import IdOf
from reasonbank.errors import InvalidInput, NotFound
from reasonbank.fields import LIMITS, ruled
from reasonbank.model import Filter, Memory, Standing, counted, filtered, labels
from reasonbank.store.given import DERIVED, missing
from reasonbank.surfaces.cli.shell import Command, Shell, command, confirm, one_text, say

if TYPE_CHECKING:
    from reasonbank.bank import Bank


def asked(names: tuple[str, ...], kind: Any) -> Callable[[Command], Command]:
    """An option for each of these fields, with what the model says of it."""
    told = {field.name: field.meaning or None for field in ruled(kind)}

    def add(function: Command) -> Command:
        for name in reversed(names):
            function = click.option(f"--{name.replace('_', '-')}", help=told[name])(function)
        return function

    return add


@command()
@click.option("--content", required=True, help="What to do; - reads standard input.")
@click.option("--title", help="A short name [default: from the content].")
@click.option("--description", help="When to use it, or when not to [default: the same].")
@click.option("--outcome", help="success, failure or mixed [default: the same].")
@click.option("--tag", "tags", multiple=True, help="Repeatable.")
@click.option("--scope", default="project", show_default=True, help="project, team or org.")
@asked(labels(), Memory)
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
    if content == "-":
        content = sys.stdin.read()
    error = {
        "error_type": error_type,
        "failure_pattern": failure_pattern,
        "corrective_guidance": guidance,
    }
    given = any(value is not None for value in error.values())
    store(shell, {**fields, "content": content, "error_context": error if given else None})


@command()
@one_text("words")
@click.option("--title", help="A short name [default: from the words].")
@click.option("--description", help="When to use it, or when not to [default: the same].")
@click.option("--outcome", help="success, failure or mixed [default: the same].")
@click.option("--tag", "tags", multiple=True, help="Repeatable.")
@click.option("--scope", default="project", show_default=True, help="project, team or org.")
def remember(shell: Shell, words: str, **fields: Any) -> None:
    """Store a lesson in one sentence; - reads standard input."""
    content = sys.stdin.read() if words == "-" else words
    store(shell, {**fields, "content": content})


def store(shell: Shell, told: dict[str, Any]) -> None:
    """Record it, and say what of it was derived."""
    told = {name: told[name] for name in told if name not in DERIVED or told[name] is not None}
    with shell.bank(creates=True) as bank:
        parents = [_whole_id(bank, "parents", id) for id in told.get("parents", ())]
        stored = bank.record(told | {"parents": parents})
    derived = missing(told)

    def draw() -> None:
        say(f"Recorded {stored.id} (confidence {stored.confidence}{_standing(stored)})")
        for name in derived:
            say(f"  {name}: {getattr(stored, name)}")
        if derived:
            say(f"Taken from the content; `reasonbank update {stored.id}` changes it.")

    shell.show(stored.to_json() | ({"derived": derived} if derived else {}), draw)


def _standing(memory: Memory) -> str:
    return "" if memory.standing is Standing.CONFIRMED else f", {memory.standing}"


def _whole_id(bank: Bank, name: str, id: str) -> str:
    return bank.context.whole_id("memory", IdOf("memory").check(id, name, LIMITS), name)


def filters(function: Command) -> Command:
    options = (
        click.option("--scope", default="all", show_default=True, help="all, project, team, org."),
        click.option("--outcome", default="all", show_default=True,
                     help="all, success, failure, mixed."),
        click.option("--tag", "tags", multiple=True, help="Repeatable; all of them must match."),
        asked(filtered(), Filter),
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


def make_filter(options: dict[str, Any]) -> Filter:
    """Takes the filter options out of ``options``."""
    import time

    from reasonbank.fields import choice
    from reasonbank.model import Outcome, Scope, Source, State

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
            raise InvalidInput(name, f"{days!r} is not a number of days")
        return int((time.time() - days * 86400) * 1_000_000)

    outcome = options.pop("outcome")
    return Filter(
        scopes=several(Scope, options.pop("scope"), "scope"),
        states=several(State, options.pop("state"), "state"),
        outcomes=() if outcome == "all" else several(Outcome, outcome, "outcome"),
        sources=tuple(choice(Source, s, "source") for s in options.pop("sources")),
        tags=options.pop("tags"),
        **{name: options.pop(name) for name in filtered()},
        error_type=options.pop("error_type"),
        created_after=ago(options.pop("newer_than"), "newer-than"),
        created_before=ago(options.pop("older_than"), "older-than"),
    )


@command()
@one_text("query")
@click.option("--limit", type=int, help="Maximum number of results [default: 5].")
@click.option("--min-confidence", type=float, help="0 to 1 [default: 0.3].")
@click.option("--max-tokens", type=int, help="Maximum length of the answer, in tokens.")
@click.option("--session", help="The task at hand, to credit its outcome later.")
@click.option("--explain", is_flag=True, help="Show every part of every score.")
@click.option("--follow-links", is_flag=True, help="Add what the hits are linked to.")
@click.option(
    "--weak/--no-weak",
    "include_weak",
    default=True,
    help="With or without what may be about something else [default: with].",
)
@filters
def search(shell: Shell, query: str, **options: Any) -> None:
    """Find memories that fit a question or a task."""
    chosen = make_filter(options)
    with shell.bank() as bank:
        reply = bank.search(query, filter=chosen, **options)

    def draw() -> None:
        from reasonbank.surfaces.show import cards

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
        full = len(memories) == limit and not shell.json
        total = bank.context.read().how_many(bank.view, chosen) if full else len(memories)
    from reasonbank.surfaces.show import tables

    shell.show([m.to_json() for m in memories], lambda: tables.memories(memories))
    if left := total - len(memories):
        say(f"… and {left} more; --limit {total}")


@command()
@click.argument("id")
def show(shell: Shell, id: str) -> None:
    """Show a memory with its evidence and links."""
    with shell.bank() as bank:
        memory = bank.get(id)
        evidence, links = bank.evidence(memory.id), bank.links(memory.id)
        against = bank.contradicting(memory.id)
    from reasonbank.surfaces.show import tables

    value = memory.to_json() | {
        "evidence": evidence,
        "links": links,
        "contradicts": against,
    }
    shell.show(value, lambda: tables.memory(memory, evidence, links, against))


@command()
@click.argument("id")
@click.option("--title")
@click.option("--description")
@click.option("--content")
@click.option("--outcome")
@click.option("--tag", "tags", multiple=True, help="Replaces all tags.")
@asked(labels(), Memory)
def update(shell: Shell, id: str, tags: tuple[str, ...], **fields: str | None) -> None:
    """Change a memory; earlier revisions are kept."""
    changes: dict[str, Any] = {k: v for k, v in fields.items() if v is not None}
    if tags:
        changes["tags"] = tags
    if not changes:
        raise InvalidInput("update", "nothing to change; give at least one field, e.g. --title")
    with shell.bank() as bank:
        memory = bank.update(id, **changes)
    shell.show(memory.to_json(), lambda: say(f"Updated {memory.id} (revision {memory.revision})"))


@command()
@click.argument("id")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(shell: Shell, id: str, yes: bool) -> None:
    """Remove a memory's content for good."""
    with shell.bank() as bank:
        memory = bank.get(id)
        confirm(shell, yes, f"Forget “{memory.title}” for good?")
        bank.forget(memory.id)
    value = {"id": memory.id, "message": "Memory forgotten"}
    shell.show(value, lambda: say(f"Forgot {memory.id}"))


@command()
@click.argument("id")
@click.option("--to", type=int, help="The revision to return to [default: the one before].")
def undo(shell: Shell, id: str, to: int | None) -> None:
    """Take back the last change of a memory, or a whole batch, such as a consolidation."""
    with shell.bank() as bank:
        try:
            memory = bank.undo(id, to=to)
        except NotFound:
            if to is not None:
                raise
            result = bank.undo_batch(id)
            told = f"Restored {len(result.restored)}, archived {len(result.archived)}"
            shell.show(result, lambda: say(told))
            return
    shell.show(memory.to_json(), lambda: say(f"“{memory.title}” is as before ({memory.state})"))


def verdict(positive: str, negative: str, *, required: bool = True) -> Callable[[Command], Command]:
    # Told that the default is None, click would take that for a choice.
    default = {} if required else {"default": None}
    return click.option(
        f"--{positive}/--{negative}", "verdict", required=required, help="Choose one.", **default
    )


def moved(shell: Shell, what: str, id: str, change: Callable[[Bank], Any]) -> None:
    """Report how an observation moved a memory's confidence."""
    with shell.bank() as bank:
        before = bank.get(id).confidence
        memory = change(bank)

    def draw() -> None:
        say(f"{what} recorded: confidence {before:.3f} → {memory.confidence:.3f}")

    shell.show(memory, draw)


@command()
@click.argument("id")
@verdict("helpful", "unhelpful")
@click.option("--comment")
@click.option("--session", help="Rating twice in one session counts once.")
def feedback(
    shell: Shell, id: str, verdict: bool, comment: str | None, session: str | None
) -> None:
    """Rate a memory."""
    moved(
        shell, "Feedback", id,
        lambda bank: bank.feedback(id, helpful=verdict, comment=comment, session=session),
    )  # fmt: skip


@command()
@click.argument("id", required=False)
@verdict("succeeded", "failed")
@click.option("--session", help="The task; without ID, what its searches returned shares it.")
def outcome(shell: Shell, id: str | None, verdict: bool, session: str | None) -> None:
    """Say how the task went that used a memory."""
    if id is None:
        if session is None:
            raise InvalidInput("id", "give a memory's id, or --session for all that it used")
        from reasonbank.store import evidence

        with shell.bank() as bank:
            count = bank.credit(session, succeeded=verdict, must_be_known=True)
            held_out = evidence.held_out(bank.context, session)
        did = "Credited" if verdict else "Blamed"
        told = f"{did} {counted(count)}" if count else "Noted; this task was given no memory"
        if held_out:
            told = "Noted; this task went without memory on purpose"
        shell.show({"credited": count, "held_out": held_out}, lambda: say(told))
        return
    memory = id
    moved(
        shell, "Outcome", memory,
        lambda bank: bank.outcome(memory, succeeded=verdict, session=session),
    )  # fmt: skip


@command()
@click.argument("id", required=False)
@verdict("kept", "reverted", required=False)
@click.option("--session")
@click.option("--check", is_flag=True, help="Show what git says of commits of 7 days ago.")
@click.option("--observe", is_flag=True, help="The same, and count it, as a worker does daily.")
def stability(
    shell: Shell, id: str | None, verdict: bool | None, session: str | None, check: bool,
    observe: bool,
) -> None:  # fmt: skip
    """Say whether the code that a memory led to was kept, or let git say it."""
    if check or observe:
        _by_git(shell, observe=observe)
        return
    if id is None or verdict is None:
        raise InvalidInput(
            "id", "give a memory's id with --kept or --reverted, or --check for what git says"
        )
    memory, kept = id, verdict
    moved(
        shell, "Stability", memory,
        lambda bank: bank.stability(memory, kept=kept, session=session),
    )  # fmt: skip


def _by_git(shell: Shell, *, observe: bool) -> None:
    from reasonbank.learn import stability

    with shell.bank() as bank:
        found = stability.observe(bank.context) if observe else stability.look(bank.context)

    def draw() -> None:
        if found.note:
            say(found.note)
        for each in found.commits:
            told = {None: "cannot be told", True: "kept", False: "reverted"}[each.kept]
            say(f"{each.commit[:12]} {told}: {each.reason} ({counted(len(each.memories))})")
        if observe:
            say(f"Observed {found.observed}")

    shell.show(found, draw)


@command()
@click.option("--limit", type=int, default=20, show_default=True)
@click.option("--forget", "question", help="Remove the gap with this question instead.")
@click.option("--forget-all", is_flag=True, help="Remove all questions that found nothing here.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def gaps(shell: Shell, limit: int, question: str | None, forget_all: bool, yes: bool) -> None:
    """List what was asked here and is not known, the most asked first."""
    if forget_all:
        confirm(shell, yes, "This removes all questions that found nothing here for good.")
    with shell.bank() as bank:
        if question is not None or forget_all:
            gone = bank.forget_gaps(None if forget_all else question)
            shell.show({"forgotten": gone}, lambda: say(f"Forgot {gone} questions"))
            return
        found = bank.gaps(limit=limit)
    from reasonbank.surfaces.show import tables

    shell.show(found, lambda: tables.gaps(found))


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
        source, target = _whole_id(bank, "source", source), _whole_id(bank, "target", target)
        if remove:
            bank.unlink(source, target, type=kind)
            value: Any = {"source": source, "target": target, "type": kind, "message": "Removed"}
        else:
            value = bank.link(source, target, type=kind, strength=strength)
    verb = "Removed" if remove else "Linked"
    shell.show(value, lambda: say(f"{verb}: {source} {kind} {target}"))


@command()
@click.argument("id")
@click.option("--mermaid", is_flag=True, help="Print a graph for Mermaid.")
def genealogy(shell: Shell, id: str, mermaid: bool) -> None:
    """Show a memory's ancestors and descendants."""
    with shell.bank() as bank:
        tree = bank.genealogy(id)
    from reasonbank.surfaces.show import tables

    if mermaid:
        say(tables.mermaid(tree))
        return
    shell.show(tree, lambda: tables.genealogy(tree))
