"""One bank, four doors: library, command, MCP and HTTP answer an operation with the same JSON.

Each door has a bank, and each case is done through every door on equal projects of its own.
Ids, times and the name of the door differ by nature and are blanked out. A tool whose fields
the MCP tools fix gives a part of the same values, under their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from tests.requirement import requirement
from tests.surfaces.http_server import Server, serving
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank, Memory, Settings
from reasonbank.fields import plain
from reasonbank.model import Trace
from reasonbank.settings import Embed
from reasonbank.surfaces.cli import main

HASHED = Settings(embed=Embed(model="hashed"), author="tester")
LESSON = {"title": "Retry uploads", "description": "When an upload breaks off half-way",
          "content": "Wait longer each time.", "outcome": "success"}  # fmt: skip
TASK = {"task": "upload the file", "outcome": "success"}
ASKED = "an upload breaks off"
ANSWER = "1. Build the image, because staging only pulls tagged images.\n" * 4
QUESTION = "How do we deploy to staging?"
UNKNOWN = "Sourdough yeast"
# No two processes see the same of these.
PASSING = {
    "cache_hit_rate", "embedding_ms", "events", "latency", "oldest_seconds", "origin",
    "process", "retrieval_ms", "searches", "seq", "since", "store", "surface", "uptime",
}  # fmt: skip


def options(**values: str) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", value)]


@dataclass(frozen=True, kw_only=True)
class Case:
    """``{id}`` is a memory with a history; ``{other}`` a second one, ``{job}`` a dead job."""

    library: Any
    cli: list[str]
    http: tuple[Any, ...]
    mcp: tuple[str, dict[str, Any]] | str
    """A tool and its arguments, or why agents are not offered this."""
    renamed: dict[str, str] = field(default_factory=dict)
    """What of the library's answer a tool gives, and under which name."""
    inside: str | None = None
    """The field of the tool's answer that holds it."""
    files: dict[str, Any] = field(default_factory=dict)


# A server that leaves what is queued to the cases.
QUIET = {
    f"REASONBANK_SCHEDULE_{kind}_HOURS": 0 for kind in ("CONSOLIDATE", "MAINTAIN", "PROMOTE")
} | {"REASONBANK_LEARN_REASONER": "agent"}
BESIDE = ("evidence", "links", "contradicts")
"""What `show` adds to a memory."""
PEOPLE = "for people: agents rate, people tidy up"
OPERATORS = "for operators"
CASES = {
    # Counts what the cases before it searched for, which differs by door: it comes first.
    "statistics": Case(
        library=lambda b, m: b.statistics(),
        cli=["stats"],
        http=("GET", "/statistics"),
        mcp=("get_statistics", {}),
    ),
    "record": Case(
        library=lambda b, m: b.record(Memory.from_json(LESSON)),
        cli=["record", *options(**LESSON)],
        http=("POST", "/memories", LESSON),
        mcp=("memory_record", LESSON),
        renamed={"id": "id", "confidence": "initial_confidence"},
    ),
    "get": Case(
        library=lambda b, m: b.get(m["id"]),
        cli=["show", "{id}"],
        http=("GET", "/memories/{id}"),
        mcp=("memory_get", {"memory_id": "{id}"}),
    ),
    "update": Case(
        library=lambda b, m: b.update(m["id"], title="Another"),
        cli=["update", "{id}", "--title", "Another"],
        http=("PATCH", "/memories/{id}", {"title": "Another"}),
        mcp=("memory_update", {"memory_id": "{id}", "title": "Another"}),
    ),
    "feedback": Case(
        library=lambda b, m: b.feedback(m["id"], helpful=True),
        cli=["feedback", "{id}", "--helpful"],
        http=("POST", "/memories/{id}/feedback", {"helpful": True}),
        mcp=("memory_feedback", {"memory_id": "{id}", "helpful": True}),
        renamed={"confidence": "new_confidence"},
    ),
    "outcome": Case(
        library=lambda b, m: b.outcome(m["id"], succeeded=False),
        cli=["outcome", "{id}", "--failed"],
        http=("POST", "/memories/{id}/outcome", {"succeeded": False}),
        mcp=("memory_outcome", {"memory_id": "{id}", "succeeded": False}),
        renamed={"confidence": "new_confidence"},
    ),
    "stability": Case(
        library=lambda b, m: b.stability(m["id"], kept=True),
        cli=["stability", "{id}", "--kept"],
        http=("POST", "/memories/{id}/stability", {"kept": True}),
        mcp="reported by hooks, not by agents",
    ),
    "credit": Case(
        library=lambda b, m: {"credited": b.credit("task-1", succeeded=True)},
        cli=["outcome", "--session", "task-1", "--succeeded"],
        http=("POST", "/sessions/task-1/outcome", {"succeeded": True}),
        mcp="agents name the memories that they used",
    ),
    "search": Case(
        library=lambda b, m: b.search(ASKED, limit=2, min_confidence=0.5),
        cli=["search", ASKED, "--limit", "2", "--min-confidence", "0.5"],
        http=("POST", "/search", {"query": ASKED, "limit": 2, "min_confidence": 0.5}),
        mcp=("memory_search", {"query": ASKED, "limit": 2}),
    ),
    "recommend": Case(
        library=lambda b, m: b.recommend(ASKED),
        cli=["recommend", ASKED],
        http=("POST", "/recommend", {"task": ASKED}),
        mcp=("memory_recommend", {"task": ASKED}),
    ),
    "inject": Case(
        library=lambda b, m: b.inject(ASKED),
        cli=["inject", ASKED],
        http=("POST", "/inject", {"task": ASKED}),
        mcp="agents search; this is for the programs around them",
    ),
    "memories": Case(
        library=lambda b, m: b.memories(limit=3),
        cli=["list", "--limit", "3"],
        http=("GET", "/memories?limit=3"),
        mcp="agents search; they need no list",
    ),
    "history": Case(
        library=lambda b, m: b.history(m["id"]),
        cli=["history", "{id}"],
        http=("GET", "/memories/{id}/history"),
        mcp=("memory_history", {"memory_id": "{id}"}),
        inside="revisions",
    ),
    "genealogy": Case(
        library=lambda b, m: b.genealogy(m["id"]),
        cli=["genealogy", "{id}"],
        http=("GET", "/memories/{id}/genealogy"),
        mcp=("get_memory_genealogy", {"memory_id": "{id}"}),
    ),
    "undo": Case(
        library=lambda b, m: b.undo(m["id"]),
        cli=["undo", "{id}"],
        http=("POST", "/memories/{id}/undo", {}),
        mcp=PEOPLE,
    ),
    "archive": Case(
        library=lambda b, m: b.archive(m["id"]),
        cli=["archive", "{id}"],
        http=("POST", "/memories/{id}/archive", {}),
        mcp=PEOPLE,
    ),
    "restore": Case(
        library=lambda b, m: b.restore(m["id"]),
        cli=["restore", "{id}"],
        http=("POST", "/memories/{id}/restore", {}),
        mcp=PEOPLE,
    ),
    "link": Case(
        library=lambda b, m: b.link(m["id"], m["other"], type="similar", strength=0.5),
        cli=["link", "{id}", "{other}", "--strength", "0.5"],
        http=("POST", "/links",
              {"source": "{id}", "target": "{other}", "type": "similar", "strength": 0.5}),
        mcp=PEOPLE,
    ),
    "store_trace": Case(
        library=lambda b, m: b.store_trace(Trace.from_json(TASK)),
        cli=["trace", "store", "{file}"],
        http=("POST", "/traces", TASK),
        mcp="stored with distil",
        files=TASK,
    ),
    "traces": Case(
        library=lambda b, m: b.traces(limit=5),
        cli=["trace", "list", "--limit", "5"],
        http=("GET", "/traces?limit=5"),
        mcp="a resource: trace://{id}",
    ),
    "trace": Case(
        library=lambda b, m: b.trace(m["trace"]),
        cli=["trace", "show", "{trace}"],
        http=("GET", "/traces/{trace}"),
        mcp="a resource: trace://{id}",
    ),
    "purge_traces": Case(
        library=lambda b, m: {"purged": b.purge_traces(older_than_days=9)},
        cli=["trace", "purge", "--older-than", "9"],
        http=("DELETE", "/traces?older_than_days=9"),
        mcp=OPERATORS,
    ),
    "distil": Case(
        library=lambda b, m: b.distil(Trace.from_json(TASK)),
        cli=["distil", "{file}"],
        http=("POST", "/sessions", TASK),
        mcp=("distil", {"task": TASK["task"], "steps": [], "outcome": "success"}),
        files=TASK,
    ),
    "distil_prepare": Case(
        library=lambda b, m: b.distil_prepare(Trace.from_json(TASK)),
        cli=["ticket", "prepare", "{file}"],
        http=("POST", "/sessions/prepare", {"session": TASK}),
        mcp=("distil_prepare", {"task": TASK["task"], "steps": [], "outcome": "success"}),
        files=TASK,
    ),
    "distil_submit": Case(
        library=lambda b, m: b.distil_submit(m["ticket"], {"memories": []}),
        cli=["ticket", "submit", "{ticket}", "{file}"],
        http=("POST", "/sessions/submit", {"ticket": "{ticket}", "answer": {"memories": []}}),
        mcp=("distil_submit", {"ticket": "{ticket}", "answer": {"memories": []}}),
        files={"memories": []},
    ),
    "capture": Case(
        library=lambda b, m: b.capture(QUESTION, ANSWER),
        cli=["capture", QUESTION, ANSWER],
        http=("POST", "/capture", {"question": QUESTION, "answer": ANSWER}),
        mcp=("capture_knowledge", {"question": QUESTION, "answer": ANSWER}),
    ),
    "gaps": Case(
        library=lambda b, m: b.gaps(limit=5),
        cli=["gaps", "--limit", "5"],
        http=("GET", "/gaps?limit=5"),
        mcp=("memory_gaps", {"limit": 5}),
        inside="gaps",
    ),
    "forget_gaps": Case(
        library=lambda b, m: {"forgotten": b.forget_gaps(UNKNOWN)},
        cli=["gaps", "--forget", UNKNOWN],
        http=("DELETE", "/gaps?question=" + UNKNOWN),
        mcp=PEOPLE,
    ),
    "jobs": Case(
        library=lambda b, m: b.jobs(state="dead"),
        cli=["queue", "list", "--state", "dead"],
        http=("GET", "/jobs?state=dead"),
        mcp=OPERATORS,
    ),
    "retry_job": Case(
        library=lambda b, m: b.retry_job(m["job"]),
        cli=["queue", "retry", "{job}"],
        http=("POST", "/jobs/{job}/retry", {}),
        mcp=OPERATORS,
    ),
    "drop_job": Case(
        library=lambda b, m: b.drop_job(m["job"]),
        cli=["queue", "drop", "{job}"],
        http=("DELETE", "/jobs/{job}"),
        mcp=OPERATORS,
    ),
    "workspaces": Case(
        library=lambda b, m: b.workspaces(),
        cli=["workspace", "list"],
        http=("GET", "/workspaces"),
        mcp=("workspace", {"action": "list"}),
        inside="workspaces",
    ),
    "name_workspace": Case(
        library=lambda b, m: b.name_workspace(m["place"], "mine"),
        cli=["workspace", "name", "{place}", "mine"],
        http=("POST", "/workspaces/{place}/name", {"name": "mine"}),
        mcp=("workspace", {"action": "name", "target": "{place}", "name": "mine"}),
        inside="workspaces",
    ),
    "move_workspace": Case(
        library=lambda b, m: b.move_workspace(m["place"], "/elsewhere"),
        cli=["workspace", "move", "{place}", "/elsewhere"],
        http=("POST", "/workspaces/{place}/move", {"path": "/elsewhere"}),
        mcp=OPERATORS,
    ),
    "audit": Case(
        library=lambda b, m: b.audit(limit=5),
        cli=["audit", "--limit", "5"],
        http=("GET", "/audit?limit=5"),
        mcp=PEOPLE,
    ),
    "maintain": Case(
        library=lambda b, m: b.maintain(),
        cli=["maintain"],
        http=("POST", "/maintain", {}),
        mcp=OPERATORS,
    ),
    "reindex": Case(
        library=lambda b, m: b.reindex(),
        cli=["reindex"],
        http=("POST", "/reindex", {}),
        mcp=OPERATORS,
    ),
    # A bank that forgot something keeps no question for an hour: these come last.
    "forget": Case(
        library=lambda b, m: b.forget(m["id"])
        or {"id": m["id"], "message": "Memory forgotten"},
        cli=["forget", "{id}", "--yes"],
        http=("DELETE", "/memories/{id}?confirm=true"),
        mcp=("memory_forget", {"memory_id": "{id}", "confirm": True}),
    ),
    "delete_workspace": Case(
        library=lambda b, m: {"id": m["place"], "message": "Workspace deleted",
                              "memories": b.delete_workspace(m["place"], confirm=True)},
        cli=["workspace", "delete", "{place}", "--yes"],
        http=("DELETE", "/workspaces/{place}?confirm=true"),
        mcp=("workspace", {"action": "delete", "target": "{place}", "confirm": True}),
        renamed={"memories": "memories_removed"},
    ),
}  # fmt: skip
# Parts of other operations, or compared where they are tested.
ELSEWHERE = {
    "open": "how a door comes to its bank", "close": "likewise", "within": "likewise",
    "seen_by": "likewise", "settings": "likewise", "author": "likewise",
    "store": "likewise", "view": "likewise",
    "consolidate": "test_consolidate_commands.py", "promote": "likewise", "batches": "likewise",
    "solve": "test_solve_cli.py", "report": "test_report.py", "health": "test_health.py",
    "evidence": "part of `show`, of its own in HTTP", "links": "part of `show`",
    "unlink": "`link --remove`", "rebuild": "`maintain --rebuild`", "embed_new": "part of import",
    "export": "test_transfer.py, test_http.py", "import_": "test_transfer.py, test_http.py",
    "reset_statistics": "`stats --reset`",
    "undo_batch": "`undo BATCH`: tests/learn", "contradicting": "part of `show`",
}  # fmt: skip


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/bank.db"


def furnished(url: str, project: Path) -> tuple[Bank, dict[str, str]]:
    """The same project in a bank every time, but for ids and times."""
    project.mkdir(parents=True, exist_ok=True)
    bank = Bank.open(url, workspace=project, settings=HASHED)
    first = bank.record(Memory.from_json(LESSON | {"tags": ["network"]}))
    second = bank.record(
        Memory.from_json(LESSON | {"title": "Resume uploads", "parents": [first.id]})
    )
    bank.update(first.id, content="Wait twice as long each time.")
    bank.feedback(first.id, helpful=True, comment="it was right", session="s")
    bank.search("upload", session="task-1")
    bank.search(UNKNOWN)
    trace = bank.store_trace(Trace.from_json(TASK | {"metadata": {"model": "m"}}))
    job = bank.distil(Trace.from_json({"task": "fails"}))
    held = bank.context.write(
        lambda txn: txn.queue.claim_one(job.id, "w", bank.store.clock(), bank.store.clock())
    )
    bank.context.write(lambda txn: txn.queue.fail(held, "no luck", None))
    ticket = bank.distil_prepare(Trace.from_json({"task": "thought about"})).ticket
    bank.embed_new()
    return bank, {
        "id": first.id, "other": second.id, "trace": trace.id, "job": job.id, "ticket": ticket,
        "place": bank.view.workspace,
    }  # fmt: skip


def filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, known in names.items():
            value = value.replace(f"{{{name}}}", known)
        return value
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    return [filled(item, names) for item in value] if isinstance(value, list) else value


_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?")
_PLACE = re.compile(r"\b[0-9a-f]{16}\b|/\S*/project\b|agent-[0-9a-f]{32}")


def blanked(value: Any) -> Any:
    if isinstance(value, dict):
        return {blanked(key): blanked(item) for key, item in value.items() if key not in PASSING}
    if isinstance(value, list):
        return [blanked(item) for item in value]
    if isinstance(value, str):
        return _PLACE.sub("<place>", _TIME.sub("<time>", _ID.sub("<id>", value)))
    return value


def through_library(bank: Bank, case: Case, names: dict[str, str]) -> Any:
    return plain(case.library(bank, names))


def through_cli(bank: str, project: Path, case: Case, names: dict[str, str]) -> Any:
    folder = str(project.parent)
    runner = CliRunner(
        env={"REASONBANK_EMBED_MODEL": "hashed", "REASONBANK_AUTHOR": "tester",
             "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
    )  # fmt: skip
    place = ["--bank", bank, "--workspace", str(project)]
    file = project.parent / "file.json"
    file.write_text(json.dumps(case.files))
    done = runner.invoke(main, ["--json", *place, *filled(case.cli, names | {"file": str(file)})])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def through_mcp(bank: Bank, case: Case, names: dict[str, str]) -> Any:
    tool, arguments = case.mcp

    async def run() -> Any:
        async with connected(bank.seen_by(surface="mcp")) as agent:
            return await agent(tool, **filled(arguments, names))

    return anyio.run(run)


def through_http(server: Server, project: Path, case: Case, names: dict[str, str]) -> Any:
    method, path, *body = filled(list(case.http), names)
    with server.client(workspace=project) as client:
        answer = client.request(method, path.lstrip("/"), json=body[0] if body else None)
    assert answer.status_code < 300, answer.text
    return answer.json()


@dataclass(frozen=True, kw_only=True)
class Doors:
    """A bank for each door. All live through the same cases, each in a project of its own."""

    folder: Path
    server: Server

    def answers(self, name: str, case: Case) -> dict[str, Any]:
        told = {}
        project = self.folder / name / "project"
        for door in ("library", "cli", "http", "mcp"):
            url = url_of(self.folder / door)
            bank, names = furnished(url, project)
            if door in ("cli", "http"):
                bank.close()  # What it counted is in the store then.
            if door == "cli":
                told[door] = through_cli(url, project, case, names)
            elif door == "http":
                told[door] = through_http(self.server, project, case, names)
            elif door == "mcp" and not isinstance(case.mcp, str):
                told[door] = through_mcp(bank, case, names)
            else:
                # An agent's bank gets what agents are not offered this way, and stays equal.
                told[door] = through_library(bank, case, names)
            bank.close()
        return {door: blanked(answer) for door, answer in told.items()}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("doors")
    for door in ("library", "cli", "mcp"):
        (folder / door).mkdir()
    with serving(folder / "http", "--bank", url_of(folder / "http"), REASONBANK_AUTHOR="tester",
                 **QUIET) as server:  # fmt: skip
        yield Doors(folder=folder, server=server)


@requirement("OBS-2")
def test_every_operation_of_a_bank_is_compared():
    public = {name for name in vars(Bank) if not name.startswith("_")}
    assert public == set(CASES) | set(ELSEWHERE)


@requirement("OBS-2")
@requirement("HTTP-1")
@pytest.mark.parametrize("name", CASES)
def test_every_door_answers_with_the_same_json(name, doors):
    case = CASES[name]
    told = doors.answers(name, case)
    expected = told["library"]
    if name == "get":
        told["cli"] = {key: value for key, value in told["cli"].items() if key not in BESIDE}
    assert told["cli"] == expected
    assert told["http"] == expected
    if not isinstance(case.mcp, str):
        compare_with_tool(case, told["mcp"], expected)


def compare_with_tool(case: Case, told: Any, expected: Any) -> None:
    if case.inside is not None:
        told = told[case.inside]
        assert told == expected or expected in told
    elif case.renamed:
        for ours, theirs in case.renamed.items():
            assert told[theirs] == expected[ours]
    else:
        assert_within(told, expected)


def assert_within(told: Any, expected: Any) -> None:
    """A tool may leave fields out, and adds the text for a prompt; no value differs."""
    if isinstance(told, dict):
        for key in told.keys() - {"prompt"}:
            assert_within(told[key], expected[key])
    elif isinstance(told, list):
        assert len(told) == len(expected)
        for one, other in zip(told, expected, strict=True):
            assert_within(one, other)
    else:
        assert told == expected
