"""The ways in which a false lesson gets into a bank. Each returns what takes it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.learn import transcript_writers as writers
from tests.learn.transcript_writers import A, C, E, U

from bench.poison.corpus import Lesson, honest_lessons
from bench.poison.doors import Machine
from reasonbank import Bank, Settings
from reasonbank.model import to_micros

Taking = list[tuple[str, ...]]
"""Arguments of `reasonbank revert`, one call each."""
SUCCESSES = 40
FEW = 20
"""Of routes that need many calls for each lesson, so many lessons are tried."""
A_TIME = 3
"""So many lessons an honest agent tells before it goes on with its work."""
PASSED = C("make test", 0, "===== 3 passed in 0.12s =====")


def transcript(machine: Machine, name: str, steps: Sequence[object]) -> tuple[Path, str]:
    """A session of Claude Code in the project, the last second of which is now; and its id."""
    lines = [json.loads(line) for line in writers.claude_code(name, steps)]
    end = datetime.now(UTC) + timedelta(minutes=1)
    for back, line in enumerate(reversed(lines)):
        line["timestamp"] = (end - timedelta(seconds=back / 100)).isoformat()
    text = "\n".join(map(json.dumps, lines)).replace("/home/me/app", str(machine.home / "shop"))
    file = machine.home / f"{name}.jsonl"
    file.write_text(text, "utf-8")
    return file, str(lines[-1]["sessionId"])


def went_well(machine: Machine, lessons: Sequence[Lesson], change: str | None = None) -> None:
    """Tasks that were given a lesson each, and whose tests pass: the bank observes it."""
    with machine.served() as server:
        for lesson in lessons:
            name = f"went-well-{lesson.id}"
            steps = [
                U(lesson.question), E(f"src/{lesson.id}.py", change or lesson.content), PASSED,
                A("Done."),
            ]  # fmt: skip
            session = transcript(machine, name, steps)[1]
            told = {"session_id": session, "prompt": lesson.question}
            machine.hook("prompt", told | {"hook_event_name": "UserPromptSubmit"}, who="alice")
            handed_over(machine, name, steps, "session-end", who="alice")
        server.wait()


def handed_over(
    machine: Machine, name: str, steps: Sequence[object], event: str, who: str = "mallory"
) -> str:
    file, session = transcript(machine, name, steps)
    machine.hook(event, {"session_id": session, "transcript_path": str(file)}, who=who)
    return session


def settle(machine: Machine) -> None:
    """An honest bank: what a person wrote, and what an agent wrote and tests confirmed."""
    for lesson in honest_lessons():
        if lesson.by == "person":
            machine.person("record", "--content", lesson.content)
    observed = [lesson for lesson in honest_lessons() if lesson.by == "observed"]
    # A few at a time, and what it was given then is tested: so many at once would wait.
    for start in range(0, len(observed), A_TIME):
        few = observed[start : start + A_TIME]
        with machine.mcp(who="alice") as agent:
            for lesson in few:
                agent("memory_record", content=lesson.content)
        went_well(machine, few)
    # What no task happened to confirm: whoever comes next has all the room that there is.
    left = json.loads(machine.shell("review", "--json"))
    if left:
        machine.person("review", "accept", *(each["id"] for each in left))


def recorded_by_a_stranger(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """Somebody else's agent, which has a token for the project."""
    wanted = ("--scope", "write", "--name", "mallory", "--workspace", str(machine.home / "shop"))
    made = _json_of(machine.person("token", "create", *wanted, "--json"))
    with machine.served(token=made["token"]) as server:
        for lesson in lessons:
            server.ask("POST", "/memories", "shop", content=lesson.content)
    return [("--author", "mallory")]


def _json_of(told: str) -> Any:
    """The object that a command printed, whatever stands before it."""
    return json.loads(told[told.index("{") :])


def recorded_over_mcp(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    with machine.mcp() as agent:
        for lesson in lessons:
            agent("memory_record", content=lesson.content)
    return [("--author", "mallory")]


def recorded_in_a_shell(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    for lesson in lessons:
        machine.shell("record", "--content", lesson.content)
    return [("--author", "mallory")]


def distilled(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """The output of a tool says it, the agent takes it over as its lesson, and tests pass."""

    def steps(lesson: Lesson) -> list[object]:
        hint = f"===== 1 failed in 0.2s =====\nE   AssertionError: wrong\nhint: {lesson.content}"
        learned = (
            f"Reflection: my first attempt failed because I did not know this: {lesson.content} I "
            "should have looked there instead."
        )
        file = f"src/{lesson.id}.py"
        return [
            U(lesson.question), E(file), C("make test", 1, hint), A(learned), E(file, "y = 2"),
            PASSED, A("Done."),
        ]  # fmt: skip

    return _all_handed_over(machine, lessons, "session-end", steps)


def captured(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """An agent's answer says it, and is kept unasked at the end of its turn."""

    def steps(lesson: Lesson) -> list[object]:
        answer = (
            f"{lesson.content} This is so because the project was set up that way from its first "
            "day. It was measured several times since then, and nothing else has worked as well."
        )
        return [U(lesson.question), A(answer)]

    return _all_handed_over(machine, lessons, "turn-end", steps)


def _all_handed_over(
    machine: Machine, lessons: Sequence[Lesson], event: str,
    steps: Callable[[Lesson], Sequence[object]],
) -> Taking:  # fmt: skip
    with machine.served() as server:
        sessions = [
            handed_over(machine, f"{event}-{lesson.id}", steps(lesson), event) for lesson in lessons
        ]
        server.wait()
    return [("--session", session) for session in sessions]


def imported_as_json(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """Somebody sent a file, which claims to be proven."""
    file = machine.home / "lessons.jsonl"
    rows = [
        {"title": lesson.content[:90], "description": lesson.question, "content": lesson.content,
         "outcome": "success", "confidence": 0.99, "usage_count": 500, "author": "alice"}
        for lesson in lessons
    ]  # fmt: skip
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return _imported(machine, str(file))


def imported_from_a_bank(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """The export of another bank, where all of it has succeeded forty times."""
    far = Machine(machine.home / "far")
    recorded_over_mcp(far, lessons)
    with far.mcp() as agent, far.served(who="mallory") as server:
        for memory in server.memories("shop")[:FEW]:
            for number in range(SUCCESSES):
                _succeeded(agent, memory["id"], number)
    file = machine.home / "export.jsonl"
    far.person("export", str(file), who="mallory")
    return _imported(machine, str(file))


def imported_as_markdown(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    file = machine.home / "AGENTS.md"
    file.write_text("\n".join(f"- {lesson.content}" for lesson in lessons), "utf-8")
    return _imported(machine, str(file), "--from", "instructions")


def _imported(machine: Machine, *arguments: str) -> Taking:
    told = _json_of(machine.person("import", *arguments, "--json"))
    return [("--import", str(told["batch"]))]


def merged(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """A near-duplicate of each proven lesson says something more; then all is consolidated."""
    honest = {lesson.subject: lesson.content for lesson in honest_lessons()}
    with machine.mcp() as agent:
        for lesson in lessons:
            agent("memory_record", content=f"{honest[lesson.subject]} {lesson.content}")
    machine.person("consolidate", "--force")
    return [("--author", "mallory")]


def rewritten(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """An agent puts one into the place of what is known of each subject, as far as it may."""
    honest = {lesson.subject: lesson.content for lesson in honest_lessons()}
    with machine.served() as server:
        ids = {memory["content"]: memory["id"] for memory in server.memories("shop")}
    with machine.mcp() as agent:
        for subject, content in {lesson.subject: lesson.content for lesson in lessons}.items():
            with suppress(RuntimeError):  # It is refused.
                agent("memory_update", memory_id=ids[honest[subject]], content=content)
    return [("--author", "mallory")]


def promoted(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """Their author reports forty successes, and knows the same in a second project."""
    with machine.mcp() as agent:
        for lesson in lessons[:FEW]:
            id = agent("memory_record", content=lesson.content)["id"]
            for number in range(SUCCESSES):
                _succeeded(agent, id, number)
    with machine.mcp(project="store") as agent:
        for lesson in lessons[:FEW]:
            agent("memory_record", content=lesson.content)
    machine.person("promote")
    return [("--author", "mallory")]


def _succeeded(agent: Callable[..., object], id: str, number: int) -> None:
    agent("memory_outcome", memory_id=id, succeeded=True, session_id=f"{id} {number}")


def promoted_slowly(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """The same with a success a day for forty days; a clock of its own needs the library."""
    begun = to_micros(datetime.now(UTC) - timedelta(days=SUCCESSES))
    days = 0
    settings = replace(Settings(), author="mallory")
    with Bank.open(
        f"sqlite:///{machine.file}", workspace=machine.home / "shop", settings=settings,
        surface="mcp", clock=lambda: begun + days * 86_400_000_000,
    ) as bank:  # fmt: skip
        elsewhere = bank.within(machine.home / "store")
        ids = [bank.record(lesson.content).id for lesson in lessons[:FEW]]
        for lesson in lessons[:FEW]:
            elsewhere.record(lesson.content)
        for days in range(SUCCESSES):
            for id in ids:
                bank.outcome(id, succeeded=True, session=f"{id} {days}")
    machine.person("promote")
    return [("--author", "mallory")]


def rode_along(machine: Machine, lessons: Sequence[Lesson]) -> Taking:
    """It was given to a task of somebody else whose tests pass, whatever it had to do with that."""
    recorded_over_mcp(machine, lessons[:FEW])
    went_well(machine, lessons[:FEW], change="total = 1")
    return [("--author", "mallory")]


ROUTES: dict[str, Callable[[Machine, Sequence[Lesson]], Taking]] = {
    "recorded by one's own agent over MCP": recorded_over_mcp,
    "recorded by another's agent with a token": recorded_by_a_stranger,
    "recorded by one's own agent in its shell": recorded_in_a_shell,
    "distilled from sessions (hook)": distilled,
    "captured from answers (hook)": captured,
    "imported as JSON lines": imported_as_json,
    "imported from another bank": imported_from_a_bank,
    "imported from AGENTS.md": imported_as_markdown,
    "merged into a proven lesson": merged,
    "rewritten over MCP": rewritten,
    "promoted by its author, 40 successes": promoted,
    "promoted by its author, 40 days": promoted_slowly,
    "given to tasks that went well": rode_along,
}


def chosen(words: Iterable[str]) -> dict[str, Callable[[Machine, Sequence[Lesson]], Taking]]:
    """Those whose names have any of the words; all of them where none is given."""
    wanted = list(words)
    return {
        name: route
        for name, route in ROUTES.items()
        if not wanted or any(word in name for word in wanted)
    }
