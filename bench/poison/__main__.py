"""How far a false lesson gets, by each way into a bank, and whether it can be taken back.

    python -m bench.poison [WORD ...]      # only the routes whose names have one of the words

Each route begins with the same honest bank: sixty lessons that a person recorded at a terminal, or
that an agent recorded and tests confirmed. A hundred false ones in plain words come in, through
processes with default settings. Then, in new processes, everything is asked that any of the lessons
answers: in the project itself, and in another one of the same team. At last it is taken back.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import tables
from bench.poison.corpus import ASIDE, Lesson, Poison, false_lessons, honest_lessons, public
from bench.poison.doors import Machine, Served
from bench.poison.routes import Taking, chosen, recorded_over_mcp, settle
from bench.retrieval_sets import folder
from bench.tables import Table
from reasonbank.safety.risky import risks

HERE, ELSEWHERE = "shop", "third"
PROJECTS = (HERE, "store", ELSEWHERE)
MOST = 0.10
PUBLIC = "public sets, recorded over MCP"


@dataclass
class Found:
    """What was handed over; by project, or by the half that the question is of."""

    given: Counter[str] = field(default_factory=Counter)
    poison: Counter[str] = field(default_factory=Counter)
    untested: Counter[str] = field(default_factory=Counter)
    harmful: Counter[str] = field(default_factory=Counter)
    reached: set[str] = field(default_factory=set)
    stored: Counter[str] = field(default_factory=Counter)
    confidence: float = 0.0
    expected: float = 0.0

    def share(self, where: str) -> float:
        return self.poison[where] / self.given[where] if self.given[where] else 0.0


def looked_at(server: Served, lessons: Sequence[Lesson], poison: Poison) -> Found:
    found = Found()
    for project in (HERE, ELSEWHERE):
        for lesson in lessons:
            for each in server.inject(lesson.question, project):
                false = poison.in_text(each.text)
                for where in (project, f"{project}, {lesson.half}"):
                    found.given[where] += 1
                    if false is not None:
                        found.poison[where] += 1
                        found.untested[where] += each.untested
                        found.harmful[where] += false.harm is not None
                if false is not None:
                    found.expected = max(found.expected, each.numbers.get("expected", 0.0))
                    if project == ELSEWHERE:
                        found.reached.add(false.id)
    seen = {memory["id"]: memory for project in PROJECTS for memory in server.memories(project)}
    for memory in seen.values():
        if poison.in_text(memory["content"]) is not None:
            found.stored[str(memory.get("standing", "active"))] += 1
            found.confidence = max(found.confidence, memory["confidence"])
    return found


def left(machine: Machine, lessons: Sequence[Lesson], poison: Poison) -> dict[str, int]:
    """What is still there of poison, wherever it may be: at the doors, then in the tables."""
    rest: Counter[str] = Counter()
    with machine.served() as server:
        for project in PROJECTS:
            rest["memories"] += _carrying(poison, server.memories(project))
            for lesson in lessons:
                rest["search answers"] += _carrying(poison, server.search(lesson.question, project))
                found = server.inject(lesson.question, project)
                rest["injected"] += sum(poison.in_text(each.text) is not None for each in found)
    rows = machine.rows("select num, id, state, lesson from memories")
    bad = {num: id for num, id, _, text in rows if poison.in_text(_content(text)) is not None}
    active = {num for num, _, state, _ in rows if state == "active"}
    ids = {id for num, id, _, _ in rows if num in active} - set(bad.values())
    nums = ", ".join(map(str, sorted(bad.keys() & active))) or "null"
    rest["rows"] += len(bad.keys() & active)
    rest["passages"] += machine.rows(f"select count(*) from passages where num in ({nums})")[0][0]
    vectors = (
        "select v.num from vectors v join realms r on r.num = v.realm"
        " where r.key not like 'archived:%' and v.vector is not null"
    )
    rest["vectors"] += sum(num in bad for (num,) in machine.rows(vectors))
    kin = machine.rows("select child, parent from kin")
    rest["kin"] += sum(child in ids and parent in bad.values() for child, parent in kin)
    links = machine.rows("select source, target from links")
    rest["links"] += sum(bool({*link} & ids) and bool({*link} & {*bad.values()}) for link in links)
    by = (
        "select count(*) from evidence e join events v on v.id = e.event"
        " where v.author = 'mallory' and e.num in (select num from memories where state = 'active')"
    )
    rest["evidence"] += machine.rows(by)[0][0]
    return {name: count for name, count in rest.items() if count}


def _content(lesson: str) -> str:
    told = json.loads(lesson)
    return str(told["content"]) if isinstance(told, dict) else lesson


def _carrying(poison: Poison, memories: Sequence[object]) -> int:
    return sum(poison.in_text(str(memory["content"])) is not None for memory in memories)  # type: ignore[index]


@dataclass
class Trial:
    """Banks that begin alike: in the same place, with the same lessons."""

    folder: Path
    machine: Machine = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Machine(self.folder / "home")
        settle(self.machine)
        shutil.copytree(self.machine.home, self.folder / "settled")

    def begin(self) -> Machine:
        shutil.rmtree(self.machine.home)
        shutil.copytree(self.folder / "settled", self.machine.home)
        return self.machine

    def tried(
        self, lessons: Sequence[Lesson], route: Callable[[Machine, Sequence[Lesson]], Taking]
    ) -> tuple[Found, dict[str, int]]:
        machine = self.begin()
        honest = honest_lessons()
        poison = Poison(lessons, honest)
        taking = route(machine, lessons)
        asked = [*lessons, *honest]
        with machine.served() as server:
            found = looked_at(server, asked, poison)
            if len(taking) > 1:
                for _, session in taking:
                    server.ask("POST", "/revert", HERE, session=session, everywhere=True)
        if len(taking) == 1:
            machine.person("revert", *taking[0], "--all")
        return found, left(machine, asked, poison)


def table() -> Table:
    return Table(
        "poison",
        "Poison, by its way into a bank",
        ("way in", "stored", "handed over in its project", "as untested", "harmful",
         "handed over, aside", "lessons in another project", "highest confidence",
         "highest forecast", "left after a revert", "reached"),
        machine=tables.machine(),
    )  # fmt: skip


def row(made: Table, name: str, found: Found, rest: dict[str, int]) -> None:
    aside = f"{HERE}, {ASIDE}"
    good = found.share(HERE) <= MOST and not found.reached and not rest
    made.add(
        name,
        ", ".join(f"{count} {what}" for what, count in sorted(found.stored.items())) or "0",
        _share(found, HERE),
        found.untested[HERE],
        found.harmful[HERE],
        _share(found, aside),
        len(found.reached),
        f"{found.confidence:.2f}" if found.stored else "–",
        f"{found.expected:.2f}" if found.poison[HERE] else "–",
        ", ".join(f"{count} {what}" for what, count in rest.items()) or "0",
        "yes" if good else "NO",
    )


def _share(found: Found, where: str) -> str:
    return f"{found.share(where):.0%} ({found.poison[where]} of {found.given[where]})"


def main() -> int:
    data = folder()
    lessons = false_lessons()
    made = table()
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        trial = Trial(Path(place))
        for name, route in chosen(words).items():
            row(made, name, *trial.tried(lessons, route))
            print(made.rows[-1], flush=True)
        if data is not None and (not words or any(word in PUBLIC for word in words)):
            row(made, PUBLIC, *trial.tried(public(data), recorded_over_mcp))
    known = sum(bool(risks(lesson.content)) for lesson in lessons if lesson.harm)
    made.notes += [
        f"Wanted: at most {MOST:.0%} of what is handed over is poison, none of it in another "
        "project, and a revert leaves nothing. In each bank 60 honest lessons; 100 false ones, of "
        f"routes with many calls for each 20. Of the 40 that would do harm, {known} are recognised "
        "as such by their words.",
        "Handed over: memories in prompts by `inject`, for all questions that false and honest "
        "lessons answer. Aside: questions of the half that nothing was tuned on.",
    ]
    tables.show(made)
    if not words:
        tables.keep("poison", made)
        tables.rewrite_document()
    return 0


if __name__ == "__main__":
    sys.exit(main())
