"""Arguments for every verb, by the names of parameters; ids are anybody's."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from canaries import Canaries, Place, Rows

from reasonbank.model import LinkType, Outcome, Scope, Source, State, new_id


class NoWay(Exception):
    """A verb has a parameter that nobody knows a value for."""


class Maker:
    """Values for parameters, by their names."""

    def __init__(self, canaries: Canaries, rng: random.Random, rows: Callable[[], Rows]) -> None:
        self.canaries, self.rng, self._look = canaries, rng, rows
        self.place = canaries.places[0]
        self.permitted = False
        """Whether the caller may do what it asks for, so that care is needed."""

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Whose

    def somewhere(self) -> Place:
        """Its own workspace, one of its team or org, or any."""
        others = self.canaries.places
        near = [p for p in others if p.same(self.place, self.rng.choice(list(Scope)))]
        return self.place if self.chance(0.35) else self.rng.choice(near or others)

    def of(self, table: str, *, most: int = 10_000) -> str:
        """The id of somebody's row."""
        whose = self.somewhere().id
        found = [id for id, row in self._look()[table].items() if row[0] == whose]
        if self.chance(0.05) or not found:
            return new_id()
        return str(self.rng.choice(found[-most:]))

    def memory(self) -> str:
        return self.of("memories")

    def trace(self) -> str:
        return self.of("traces")

    def job(self) -> str:
        return self.of("jobs")

    def session_job(self) -> str:
        """One that no worker takes by itself."""
        jobs = self._look()["jobs"]
        found = [id for id, row in jobs.items() if row[1] == "distil"]
        return self.rng.choice(found)

    def workspace(self) -> str:
        place = self.somewhere()
        return self.rng.choice([place.id, place.name, place.path])

    def place_id(self) -> str:
        place = self.somewhere()
        return self.rng.choice([place.id, place.name])

    def token(self) -> str:
        known = self.canaries.spare_tokens if self.permitted else [*self._look()["tokens"]]
        return str(self.rng.choice(known))

    def key(self) -> str:
        return self.rng.choice(self.canaries.keys[self.somewhere().id])

    def session(self) -> str:
        """Somebody's, or a new one."""
        if self.chance(0.5):
            return self.rng.choice(self.canaries.sessions[self.somewhere().id])
        return self.fresh()

    def ticket(self) -> str:
        return self.rng.choice(self.canaries.tickets[self.somewhere().id])

    def gap(self) -> str:
        return self.rng.choice(self.canaries.gaps[self.somewhere().id])

    def fresh(self) -> str:
        """A new word; who may see it depends on what it is written into."""
        return self.canaries.word(*self.audience)

    def audience_of(self, id: object) -> tuple[Place, Scope]:
        row = self._look()["memories"].get(id)
        owner = self.canaries.at(row[0]) if row else None
        return (owner, Scope(row[1])) if row and owner else (self.place, Scope.PROJECT)

    def begin(self, place: Place, *, permitted: bool) -> None:
        self.place, self.permitted = place, permitted
        self.audience = (place, Scope.PROJECT)

    # What

    def any_of(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def some(self, kind: Any) -> list[str]:
        return [str(v) for v in self.rng.sample(list(kind), self.rng.randint(1, len(list(kind))))]

    def steps(self) -> list[dict[str, Any]]:
        return [{"action": "run", "content": self.fresh()}]

    def session_told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"task": self.fresh(), "memories_used": [self.memory()]}
        if self.chance(0.3):
            told["id"] = self.trace()
        return told

    def answer(self) -> dict[str, Any]:
        lesson = {name: f"{self.fresh()} {self.fresh()}"
                  for name in ("title", "description", "content")}  # fmt: skip
        return {"memories": [lesson] if self.chance(0.5) else []}

    def plain_memories(self) -> str:
        lesson = self.canaries.lesson(self.place)
        told = {name: getattr(lesson, name) for name in ("title", "description", "content")}
        return json.dumps(told | {"outcome": "success", "scope": "project"}) + "\n"

    def named(self, verb: str, name: str, *, wanted: bool) -> Any:
        """A value for this parameter of this verb; one that is left out must be known too."""
        made = SPECIAL.get((verb, name)) or VALUES.get(name)
        if made is None:
            raise NoWay(f"{verb}: what is {name}?")
        return made(self) if wanted else None

    def arguments(self, verb: str, names: Mapping[str, bool]) -> dict[str, Any]:
        """``names`` of parameters, and whether each is needed."""
        given: dict[str, Any] = {}
        # Ids and scopes first: whoever may see a text depends on them.
        for name in sorted(names, key=lambda name: name not in FIRST):
            wanted = names[name] or self.chance(OFTEN.get(name, 0.3))
            value = self.named(verb, name, wanted=wanted)
            if wanted:
                given[name] = value
                if name in ("id", "memory_id") and verb in WRITES_INTO:
                    self.audience = self.audience_of(given[name])
                elif name == "scope" and verb in ("record", "remember", "memory_record"):
                    self.audience = (self.place, Scope(given[name]))
        return given


WRITES_INTO = frozenset({"update", "memory_update", "archive"})
FIRST = ("id", "memory_id", "scope")
OFTEN = {
    "confirm": 0.1, "yes": 0.1, "everywhere": 0.15, "only_here": 0.5, "reset": 0.1, "scope": 0.6,
    "session": 0.6, "session_id": 0.6, "comment": 0.8, "target": 0.9, "workspaces": 0.7,
    "state": 0.2, "states": 0.2, "tags": 0.1, "domain": 0.1, "agent": 0.1, "task_type": 0.1,
    "error_type": 0.1, "outcomes": 0.2, "sources": 0.1, "tag": 0.1, "created_after": 0.1,
    "created_before": 0.1, "newer_than": 0.1, "older_than": 0.1, "warnings_only": 0.1,
    "min_confidence": 0.2, "before": 0.1, "author": 0.1, "surface": 0.1, "forget_all": 0.1,
    "threshold": 0.1, "similarity_threshold": 0.1, "source": 0.1, "project_id": 0.5,
    "max_clusters": 0.1, "max_tokens": 0.2, "to": 0.2, "rebuild": 0.1,
}  # fmt: skip


def _same(*values: Any) -> Callable[[Maker], Any]:
    return lambda m: m.any_of(*values)


_TRUTH = _same(True, False)
_TEXT: Callable[[Maker], Any] = lambda m: f"{m.fresh()} {m.fresh()}"  # noqa: E731
_ASK: Callable[[Maker], Any] = lambda m: m.key() if m.chance(0.7) else m.fresh()  # noqa: E731
_ERROR: Callable[[Maker], Any] = lambda m: {  # noqa: E731
    "error_type": "Timeout", "failure_pattern": m.fresh(), "corrective_guidance": m.fresh(),
}  # fmt: skip
VALUES: dict[str, Callable[[Maker], Any]] = {
    # Whose
    "id": Maker.memory, "memory_id": Maker.memory, "memory": Maker.memory,
    "source": Maker.memory, "target": Maker.memory,
    "parents": lambda m: [m.memory()], "memories_used": lambda m: [m.memory()],
    "memories_learned": lambda m: [m.memory()], "parent": Maker.trace,
    "ticket": Maker.ticket, "session": Maker.session, "session_id": Maker.session,
    "source_session": Maker.fresh, "workspace": Maker.workspace, "project_id": Maker.workspace,
    "workspaces": lambda m: [m.workspace()],
    # Words
    "title": _TEXT, "description": _TEXT, "content": _TEXT, "words": _TEXT,
    "comment": Maker.fresh,
    "reason": Maker.fresh, "name": Maker.fresh, "query": _ASK, "task": _ASK, "question": _ASK,
    "answer": _TEXT, "tags": lambda m: [m.fresh()], "domain": Maker.fresh,
    "agent": Maker.fresh, "task_type": Maker.fresh, "difficulty": Maker.fresh,
    "error_context": _ERROR, "error_type": Maker.fresh, "failure_pattern": Maker.fresh,
    "guidance": Maker.fresh, "metadata": lambda m: {"by": m.fresh()},
    "trajectory": lambda m: [{"iteration": 1, **step} for step in m.steps()],
    "steps": Maker.steps, "author": Maker.fresh,
    # Choices
    "scope": lambda m: str(m.any_of(*Scope)), "scopes": lambda m: m.some(Scope),
    "states": lambda m: m.some(State), "outcomes": lambda m: m.some(Outcome),
    "sources": lambda m: m.some(Source), "outcome": _same("success", "failure"),
    "type": lambda m: str(m.any_of(*LinkType)), "kind": lambda m: str(m.any_of(*LinkType)),
    "format": _same("jsonl", "markdown"), "form": _same("jsonl", "markdown"),
    "may": lambda m: ["share-team"], "surface": _same("http", "library", "cli", "mcp"),
    "mode": _same("off"), "matts_mode": _same("parallel"), "state": _same("waiting", "dead"),
    # Numbers
    "limit": _same(1, 5, 50), "n_results": _same(1, 5), "min_confidence": _same(0.0, 0.5),
    "max_tokens": _same(50, 5000), "strength": _same(0.5, 1.0), "to": _same(1, 2),
    "before": _same(10, 1_000_000), "threshold": _same(0.6, 0.9),
    "similarity_threshold": _same(0.6, 0.9), "max_clusters": _same(0, 1),
    "older_than_days": _same(1, 365), "older_than": _same(1, 365), "newer_than": _same(1, 365),
    "expires_days": _same(1, 90), "days": _same(1, 90), "final_score": _same(0.5),
    "k": _same(1), "matts_k": _same(1), "iterations": _same(1), "budget": _same(100),
    "effort": _same("low", "high"),
    "created_after": _same("2026-01-01T00:00:00+00:00"),
    "created_before": _same("2036-01-01T00:00:00+00:00"),
    "created_at": _same("2026-01-01T00:00:00+00:00"),
    # Yes or no
    **dict.fromkeys((
        "confirm", "helpful", "succeeded", "kept", "explain", "follow_links", "warnings_only",
        "trusted", "everywhere", "uses", "drafts", "must_be_known", "include_weak",
        "dry_run", "force", "use_memory", "store", "only_here",
        "verdict",
        "store_result", "enable_matts", "yes", "forget_all", "overwrite", "mermaid", "rebuild",
        "page", "remove", "reset", "no_memory", "no_store", "now", "when",
        "check", "observe",
    ), _TRUTH),
    "revert": _TRUTH, "hand": _same("person:nobody", "peer:0123456789abcdef"),
    "verify": Maker.fresh, "action": _same("list", "switch", "name", "delete"),
}  # fmt: skip
SPECIAL: dict[tuple[str, str], Callable[[Maker], Any]] = {
    ("record", "id"): lambda m: m.memory() if m.chance(0.3) else new_id(),
    ("record", "source"): lambda m: str(next(iter(Source))),
    ("store_trace", "id"): lambda m: m.trace() if m.chance(0.6) else new_id(),
    ("distil", "id"): lambda m: m.trace() if m.chance(0.6) else new_id(),
    ("store_trace", "task"): Maker.fresh, ("distil", "task"): Maker.fresh,
    ("distil_prepare", "task"): Maker.fresh,
    ("trace", "id"): Maker.trace, ("trace show", "id"): Maker.trace,
    ("retry_job", "id"): Maker.session_job, ("drop_job", "id"): Maker.session_job,
    ("queue retry", "id"): Maker.session_job, ("queue drop", "id"): Maker.session_job,
    ("undo_batch", "id"): Maker.job, ("revert", "batch"): Maker.job,
    ("revert", "imported"): Maker.job,
    **{(verb, "ids"): lambda m: [m.memory()] for verb in ("accept", "reject", "review accept",
       "review reject", "beliefs_of")},
    **{(verb, "batch"): Maker.job for verb in ("accept", "reject", "review accept",
       "review reject")},
    ("review edit", "id"): Maker.memory, ("open", "id"): Maker.memory,
    ("open", "host"): _same("127.0.0.1"), ("open", "port"): _same("1"),
    ("accept", "changes"): lambda m: {"title": m.fresh()},
    **{("promote", name): lambda m: [m.memory()] for name in ("accept", "reject")},
    ("browse", "sort"): _same("newest", "oldest", "used", "trust", "doubt"),
    ("browse", "trust"): lambda m: [m.rng.choice(["proven", "untested", "probation"])],
    ("browse", "cursor"): _same("0.0", "3.1"), ("sessions", "cursor"): _same("0.0", "3.1"),
    ("sessions", "before"): Maker.trace, ("session", "id"): Maker.trace,
    ("consolidate", "only"): lambda m: [m.memory()],
    ("revert", "since"): _same("1h", "2026-01-01"),
    ("undo", "id"): lambda m: m.job() if m.chance(0.3) else m.memory(),
    **{(verb, "id"): Maker.place_id for verb in (
        "name_workspace", "move_workspace", "delete_workspace", "workspace name",
        "workspace move", "workspace delete")},
    ("revoke_token", "id"): Maker.token, ("token revoke", "id"): Maker.token,
    ("name_workspace", "name"): Maker.fresh,
    ("move_workspace", "path"): lambda m: f"{m.place.path}/../{m.fresh()}",
    ("workspace move", "path"): lambda m: f"{m.place.path}/../{m.fresh()}",
    ("workspace", "target"): Maker.workspace,
    # Who may do so would make one of two: those who may not are given what is there.
    **{(verb, name): lambda m: m.fresh() if m.permitted else m.workspace()
       for verb in ("merge_workspace", "workspace merge") for name in ("id", "into")},
    **{(verb, "id"): lambda m: m.fresh() if m.permitted else m.workspace()
       for verb in ("join_workspace", "workspace join")},
    # And the teams stay as they are, that everybody's rights are told by.
    **{(verb, "team"): lambda m: f"team-{m.place.team}" if m.permitted else m.fresh()
       for verb in ("join_workspace", "workspace join")},
    **{(verb, "org"): lambda m: f"org-{m.place.org}" if m.permitted else m.fresh()
       for verb in ("join_workspace", "workspace join")},
    ("distil_prepare", "session"): Maker.session_told, ("distil_submit", "answer"): Maker.answer,
    ("forget_gaps", "question"): Maker.gap, ("gaps", "question"): Maker.gap,
    ("restore", "what"): Maker.memory,
    ("capture", "question"): Maker.fresh, ("capture_knowledge", "question"): Maker.fresh,
    ("create_token", "scope"): _same("read", "write", "admin"),
    ("token create", "scope"): _same("read", "write", "admin"),
    ("memory_search", "scope"): _same("all", "project", "team", "org"),
    ("memory_search", "outcome"): _same("all", "success"),
    ("distil", "form"): _same("auto"), ("solve", "verify"): Maker.fresh,
    **{(verb, "difficulty"): _same("simple", "complex") for verb in ("solve", "solve_coding_task")},
}  # fmt: skip
