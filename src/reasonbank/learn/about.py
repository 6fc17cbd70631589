"""What can be known of a lesson besides its text: subject, kind of task, agent, difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reasonbank.learn.rules.changes import as_edit, only_reads
from reasonbank.learn.rules.lesson import HOME, Run
from reasonbank.learn.session import Command, Entry, Session, of_trace
from reasonbank.model import ErrorContext, Memory, Outcome, Source, Trace
from reasonbank.safety.patterns import brief, compile
from reasonbank.search import subjects

MODERATE_STEPS, MANY_STEPS = 10, 60
MANY_FAILURES = 4
OURSELVES = "reasonbank"

_AN_AGENT = compile(r"[\w][\w ./:@+-]{0,63}")
# What a task is asked for with; the first that fits.
_TASKS = tuple(
    (brief(rf"(?i)\b(?:{words})\b", 2_000), name)
    for words, name in (
        (r"fix\w*|bugs?|fail\w*|broken|breaks?|errors?|crash\w*|debug\w*|red|wrong", "debugging"),
        (r"review\w*", "review"),
        (r"deploy\w*|releas\w*|publish\w*|roll ?out|ship", "deployment"),
        (r"refactor\w*|renam\w*|clean ?up|simplif\w*|restructur\w*", "refactoring"),
        (r"migrat\w*|upgrad\w*|port", "migration"),
        (r"install\w*|set ?up|configur\w*|bootstrap", "setup"),
        (r"document\w*|readme|docs|changelog", "documentation"),
        (r"tests?|coverage|green", "testing"),
        (r"faster|slow\w*|optimi[sz]\w*|performance|speed", "performance"),
        (r"add|implement\w*|write|create|build|make|support|new", "feature"),
    )
)
_QUESTION = brief(r"(?i)^\s*(?:why|what|how|where|which|who|when|is|are|does|do|can)\b[^?]*\?", 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a whole session tells; a lesson drawn from a part of it may tell more."""

    session: Session
    runs: Sequence[Run]
    task_type: str | None
    agent: str | None
    difficulty: str | None
    source: Source | None


def filled(memories: Sequence[Memory], trace: Trace) -> list[Memory]:
    """The memories, with what was left open filled in where the session tells it."""
    if not memories:
        return []
    known = _known(trace)
    return [_filled(memory, known) for memory in memories]


def _known(trace: Trace) -> _Known:
    session = of_trace(trace)
    runs = [Run(command) for command in session.commands()]
    failures = [run for run in runs if run.passed is False and not only_reads(run.what)]
    lost = sum(step.score is not None and step.score < 0.5 for step in trace.trajectory)
    solved = "matts_mode" in trace.metadata
    agent = trace.metadata.get("agent", OURSELVES if solved else None)
    return _Known(
        session=session,
        runs=runs,
        task_type=task_type(trace.task, failed=bool(failures)),
        agent=agent if isinstance(agent, str) and _AN_AGENT.fullmatch(agent) else None,
        difficulty=difficulty(len(trace.trajectory), max(len(failures), lost)),
        source=Source.SOLVED if solved else None,
    )


def task_type(task: str, *, failed: bool = False) -> str | None:
    if _QUESTION.search(task):
        return "question"
    asked = next((name for pattern, name in _TASKS if pattern.search(task)), None)
    return asked or ("debugging" if failed else None)


def difficulty(steps: int, failures: int) -> str | None:
    """How much it took: steps, and how many of them went wrong."""
    if not steps:
        return None
    if failures >= MANY_FAILURES or steps >= MANY_STEPS:
        return "hard"
    return "moderate" if failures > 1 or steps > MODERATE_STEPS else "simple"


def _filled(memory: Memory, known: _Known) -> Memory:
    entries = known.session.entries
    first, last = memory.source_span or (1, len(entries))
    domain = memory.domain or _domain(entries[first - 1 : last]) or _domain(entries)
    domain = domain or subjects.of_text(f"{memory.title} {memory.description}")
    domain = domain or subjects.of_text(known.session.task)
    return replace(
        memory,
        source=known.source or memory.source,
        domain=domain,
        task_type=memory.task_type or known.task_type,
        agent=memory.agent or known.agent,
        difficulty=memory.difficulty or known.difficulty,
        error_context=_error(memory, known, (first, last), domain),
    )


def _domain(entries: Sequence[Entry]) -> str | None:
    found: list[str | None] = []
    for entry in entries:
        if edit := as_edit(entry):
            found.append(subjects.of_file(edit.path))
        elif isinstance(entry, Command):
            what = Run(entry).what
            # What keeps the books is not what the work was about.
            found.append(None if what.program == "git" else subjects.of_program(what.program))
    return subjects.most(found)


def _error(
    memory: Memory, known: _Known, span: tuple[int, int], domain: str | None
) -> ErrorContext | None:
    """With what was printed when it happened, where the session ran into it."""
    error = memory.error_context
    if error is None:
        return None
    error = replace(error, task_domain=error.task_domain or domain)
    if memory.outcome is not Outcome.FAILURE or error.error_message or error.stack_trace:
        return error
    failed = [run for run in known.runs if run.passed is False and not only_reads(run.what)]
    within = [run for run in failed if span[0] <= run.number <= span[1]]
    failure = next((run.failure for run in reversed(within or failed) if run.failure), None)
    if failure is None or error.error_type == "UserCorrection":
        return error
    return replace(
        error,
        error_message=HOME.sub("~", failure.message) or None,
        stack_trace=failure.stack and HOME.sub("~", failure.stack),
    )
