"""One bank, four doors: library, command, MCP and HTTP answer an operation with the same JSON.

A case says what an operation is given; the table of operations says how that is sent. Each door
has a bank, and each case is done through every door on equal projects of its own. Ids, times and
the name of the door differ by nature and are blanked out. A tool whose fields the MCP tools fix
gives a part of the same values, under their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner, Result
from tests.requirement import requirement
from tests.surfaces.http_server import Server, serving
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank, InvalidInput, Memory, Settings
from reasonbank.fields import plain
from reasonbank.model import Trace
from reasonbank.settings import Embed
from reasonbank.surfaces import shapes
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.cli import main
from reasonbank.surfaces.mcp.memory_tools import TOOLS
from reasonbank.surfaces.operations import OPERATIONS

HASHED = Settings(embed=Embed(model="hashed"), author="tester")
LESSON = {"title": "Retry uploads", "description": "When an upload breaks off half-way",
          "content": "Wait longer each time.", "outcome": "success"}  # fmt: skip
TASK = {"task": "upload the file", "outcome": "success"}
TOLD = TASK | {"trajectory": []}
ASKED = "an upload breaks off"
ANSWER = "1. Build the image, because staging only pulls tagged images.\n" * 4
QUESTION = "How do we deploy to staging?"
UNKNOWN = "Sourdough yeast"
# No two processes see the same of these.
PASSING = {
    # Who comes through which door decides how far they are trusted.
    "by_standing", "hand", "influence", "standing",
    "cache_hit_rate", "duration_seconds", "embedding_ms", "events", "latency", "milliseconds",
    "oldest_seconds", "origin", "process", "retrieval_ms", "searches", "seq", "since", "store",
    "surface", "uptime",
}  # fmt: skip
# A server that leaves what is queued to the cases.
QUIET = {
    f"REASONBANK_SCHEDULE_{kind}_HOURS": 0 for kind in ("CONSOLIDATE", "MAINTAIN", "PROMOTE")
} | {"REASONBANK_LEARN_REASONER": "agent"}
OPERATION = {operation.name: operation for operation in OPERATIONS}


def merged(bank: Bank) -> dict[str, str]:
    return {"batch": str(bank.consolidate(threshold=0.2).batch)}


def beside(bank: Bank) -> dict[str, str]:
    """Another project, which is to have all that this one knows."""
    other = bank.seen_by(workspace="beside")
    other.record(Memory.from_json(LESSON))
    return {"beside": other.view.workspace}


def spoilt(bank: Bank) -> dict[str, str]:
    bank.seen_by(author="mallory").update(bank.memories(limit=1)[0].id, content="Give up.")
    return {}


def contradicted(bank: Bank) -> dict[str, str]:
    newer, older = bank.memories(limit=2)
    bank.link(newer.id, older.id, type="contradicts")
    return {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """``{id}`` is a memory with a history; ``{other}`` a second one, ``{job}`` a dead job."""

    given: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    """Unless it is a plain one. ``{name}`` is what is given; an object is in a file of its own,
    and ``{body}`` is a file of all that is given."""
    part: str | None = None
    """The field of the command's answer that holds it."""
    tool: str | None = None
    """None where agents are not offered this."""
    told: dict[str, Any] | None = None
    """What the tool is given, unless it is the same."""
    renamed: dict[str, str] = field(default_factory=dict)
    """What of the answer a tool gives, and under which name."""
    inside: str | None = None
    """The field of the tool's answer that holds it."""
    first: Callable[[Bank], dict[str, str]] = lambda bank: {}
    """What must have been done."""


MEMORY = {"id": "{id}"}
PLACE = {"id": "{place}"}
CASES = {
    # Counts what the cases before it searched for, which differs by door: it comes first.
    "statistics": Case(command="stats", tool="get_statistics"),
    "reset_statistics": Case(),
    "health": Case(tool="health_check"),
    "record": Case(
        given=LESSON,
        command="record --title {title} --description {description} --content {content} "
        "--outcome {outcome}",
        tool="memory_record",
        renamed={"id": "id", "confidence": "initial_confidence"},
    ),
    "get": Case(given=MEMORY, command="show {id}", tool="memory_get"),
    "update": Case(
        given=MEMORY | {"title": "Another"},
        command="update {id} --title {title}",
        tool="memory_update",
    ),
    "feedback": Case(
        given=MEMORY | {"helpful": True},
        command="feedback {id} --helpful",
        tool="memory_feedback",
        renamed={"confidence": "new_confidence"},
    ),
    "outcome": Case(
        given=MEMORY | {"succeeded": False},
        command="outcome {id} --failed",
        tool="memory_outcome",
        renamed={"confidence": "new_confidence"},
    ),
    "stability": Case(given=MEMORY | {"kept": True}, command="stability {id} --kept"),
    "credit": Case(
        given={"session": "task-1", "succeeded": True},
        command="outcome --session {session} --succeeded",
    ),
    "search": Case(
        given={"query": ASKED, "limit": 2, "min_confidence": 0.5},
        command="search {query} --limit {limit} --min-confidence {min_confidence}",
        tool="memory_search",
        told={"query": ASKED, "limit": 2},
    ),
    "recommend": Case(given={"task": ASKED}, tool="memory_recommend"),
    "inject": Case(given={"task": ASKED}, command="inject {task}"),
    "memories": Case(given={"limit": 3}, command="list --limit {limit}"),
    "history": Case(given=MEMORY, tool="memory_history", inside="revisions"),
    "evidence": Case(given=MEMORY, command="show {id}", part="evidence"),
    "links": Case(given=MEMORY, command="show {id}", part="links", first=contradicted),
    "contradicting": Case(
        given=MEMORY,
        command="show {id}",
        part="contradicts",
        first=contradicted,
    ),
    "genealogy": Case(given=MEMORY, command="genealogy {id}", tool="get_memory_genealogy"),
    "undo": Case(given=MEMORY, command="undo {id}"),
    "archive": Case(given=MEMORY),
    "restore": Case(given=MEMORY, command="restore {id}"),
    "link": Case(
        given={"source": "{id}", "target": "{other}", "type": "similar", "strength": 0.5},
        command="link {source} {target} --strength {strength}",
    ),
    "unlink": Case(
        given={"source": "{other}", "target": "{id}", "type": "contradicts"},
        command="link {source} {target} --type {type} --remove",
        first=contradicted,
    ),
    "store_trace": Case(given=TASK, command="trace store {body}"),
    "traces": Case(given={"limit": 5}),
    "trace": Case(given={"id": "{trace}"}),
    "purge_traces": Case(
        given={"older_than_days": 9}, command="trace purge --older-than {older_than_days}"
    ),
    "distil": Case(given=TASK, command="distil {body} --later", tool="distil", told=TOLD),
    "distil_prepare": Case(
        given={"session": TASK}, command="ticket prepare {session}", tool="distil_prepare",
        told=TOLD,
    ),
    "distil_submit": Case(
        given={"ticket": "{ticket}", "answer": {"memories": []}},
        command="ticket submit {ticket} {answer}",
        tool="distil_submit",
    ),
    "capture": Case(
        given={"question": QUESTION, "answer": ANSWER},
        command="capture {question} {answer}",
        tool="capture_knowledge",
    ),
    "gaps": Case(
        given={"limit": 5}, command="gaps --limit {limit}", tool="memory_gaps", inside="gaps"
    ),
    "review": Case(given={"limit": 5}, command="review --limit {limit}"),
    "forget_gaps": Case(given={"question": UNKNOWN}, command="gaps --forget {question}"),
    "jobs": Case(given={"state": "dead"}),
    "retry_job": Case(given={"id": "{job}"}),
    "drop_job": Case(given={"id": "{job}"}),
    "workspaces": Case(
        command="workspace list", tool="workspace", told={"action": "list"}, inside="workspaces"
    ),
    "name_workspace": Case(
        given=PLACE | {"name": "mine"},
        command="workspace name {id} {name}",
        tool="workspace",
        told={"action": "name", "target": "{place}", "name": "mine"},
        inside="workspaces",
    ),
    "move_workspace": Case(
        given=PLACE | {"path": "/elsewhere"}, command="workspace move {id} {path}"
    ),
    "merge_workspace": Case(
        given=PLACE | {"into": "{beside}"}, command="workspace merge {id} {into}", first=beside
    ),
    "join_workspace": Case(
        given=PLACE | {"team": "blue"}, command="workspace join {id} --team {team}"
    ),
    "report": Case(command="report"),
    "audit": Case(given={"limit": 5}, command="audit --limit {limit}"),
    "consolidate": Case(
        given={"threshold": 0.2},
        command="consolidate --threshold {threshold}",
        tool="memory_consolidate",
        told={"similarity_threshold": 0.2},
    ),
    "batches": Case(given={"limit": 5}, first=merged),
    "undo_batch": Case(given={"id": "{batch}"}, command="undo {id}", first=merged),
    "revert": Case(
        given={"author": "mallory"}, command="revert --author {author}", first=spoilt
    ),
    "verify": Case(command="audit verify"),
    "maintain": Case(command="maintain"),
    "embed_new": Case(),
    "reindex": Case(command="reindex"),
    "rebuild": Case(),
    # What people look at
    "look": Case(given={"query": ASKED, "limit": 2}),
    "browse": Case(given={"limit": 3, "sort": "trust"}),
    "overview": Case(),
    "beliefs_of": Case(given={"ids": ["{id}", "{other}"]}),
    "belief": Case(given=MEMORY),
    "graph": Case(given=MEMORY, first=contradicted),
    "rivals": Case(given=MEMORY, first=contradicted),
    "origin": Case(given=MEMORY),
    "sessions": Case(given={"limit": 5}),
    "session": Case(given={"id": "{trace}"}),
    # A bank that forgot something keeps no question for an hour: these come last.
    "forget": Case(
        given=MEMORY | {"confirm": True}, command="forget {id} --yes", tool="memory_forget"
    ),
    "delete_workspace": Case(
        given=PLACE | {"confirm": True},
        command="workspace delete {id} --yes",
        tool="workspace",
        told={"action": "delete", "target": "{place}", "confirm": True},
        renamed={"memories": "memories_removed"},
    ),
}  # fmt: skip
ELSEWHERE = {
    "export": "a file, in test_transfer.py and test_http.py", "import": "likewise",
    "solve": "needs a model, in test_solve_cli.py and test_solve_http.py",
    "accept": "a person's alone, in test_review_commands.py", "reject": "likewise",
    "promote": "who records decides what is ready, in test_consolidate_commands.py",
    "agents": "tells of the machine, in test_views.py",
    "about": "tells of the settings, in test_views.py", "work": "likewise",
    "create_token": "a secret, in test_tokens.py", "tokens": "likewise",
    "revoke_token": "likewise",
    "peers": "tells of the machine, in test_peers_api.py",
    "trust_peer": "a person's alone, in test_peers_api.py", "revoke_peer": "likewise",
}  # fmt: skip
NO_COMMAND = {
    "reset_statistics": "stats --reset, which answers with the statistics",
    "health": "doctor, which answers with more", "embed_new": "a part of import",
    "rebuild": "maintain --rebuild, which answers with what was maintained",
    **dict.fromkeys(
        ("look", "browse", "overview", "beliefs_of", "belief", "graph", "rivals", "origin",
         "sessions", "session"),
        "for the page; in a shell: search --explain, list, show, genealogy, trace",
    ),
}  # fmt: skip
OTHER_TOOLS = {
    "retrieve_memories": "memory_search, by another name", "solve_coding_task": "needs a model",
}  # fmt: skip


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/bank.db"


def furnished(url: str, project: Path, case: Case) -> tuple[Bank, dict[str, str]]:
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
    } | case.first(bank)  # fmt: skip


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
_PLACE = re.compile(
    r"\b[0-9a-f]{16}\b|/\S*/(project|bank\.db)\b|agent-[0-9a-f]{32}|[\d.]+ GB"
    r"|nobody just now.*|http \(process .*"
)


def blanked(value: Any) -> Any:
    if isinstance(value, dict):
        return {blanked(key): blanked(item) for key, item in value.items() if key not in PASSING}
    if isinstance(value, list):
        return [blanked(item) for item in value]
    if isinstance(value, str):
        return _PLACE.sub("<place>", _TIME.sub("<time>", _ID.sub("<id>", value)))
    return value


def words(name: str, given: dict[str, Any], folder: Path) -> list[str]:
    """The command for an operation: from the table, or as the case says."""
    operation, command = OPERATION[name], CASES[name].command
    if operation.command is not None:
        command = operation.command
        for parameter in list(operation.signature.parameters.values())[1:]:
            if parameter.name in given:
                option = parameter.default is not parameter.empty
                command += f" --{parameter.name}" * option + f" {{{parameter.name}}}"
    known = {}
    for key, value in (given | {"body": given}).items():
        known[key] = str(value)
        if isinstance(value, dict):
            file = folder / f"{key}.json"
            file.write_text(json.dumps(value))
            known[key] = str(file)
    return [filled(word, known) for word in str(command).split()]


def has_command(name: str) -> bool:
    return OPERATION[name].command is not None or CASES[name].command is not None


def through_library(bank: Bank, name: str, given: dict[str, Any]) -> Any:
    call = Call(root=bank, surface="library")
    answer = OPERATION[name].perform(call, shapes.arguments(OPERATION[name], given))
    return json.loads(json.dumps(plain(answer)))


def typed(url: str, project: Path, name: str, given: dict[str, Any]) -> Result:
    folder = str(project.parent)
    runner = CliRunner(
        env={"REASONBANK_EMBED_MODEL": "hashed", "REASONBANK_AUTHOR": "tester",
             "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
    )  # fmt: skip
    place = ["--bank", url, "--workspace", str(project)]
    return runner.invoke(main, ["--json", *place, *words(name, given, project.parent)])


def through_cli(url: str, project: Path, name: str, given: dict[str, Any]) -> Any:
    done = typed(url, project, name, given)
    assert done.exit_code == 0, (done.output, done.exception)
    told, part = json.loads(done.stdout), CASES[name].part
    return told if part is None else told[part]


def through_mcp(bank: Bank, case: Case, names: dict[str, str]) -> Any:
    told = case.given if case.told is None else case.told
    # A tool works on many things, and says which id it wants.
    told = {"memory_id" if key == "id" else key: value for key, value in told.items()}

    async def run() -> Any:
        async with connected(bank.seen_by(surface="mcp")) as agent:
            return await agent(str(case.tool), **filled(told, names))

    return anyio.run(run)


def sent(server: Server, project: Path, name: str, given: dict[str, Any]) -> httpx2.Response:
    operation = OPERATION[name]
    path = filled(operation.path, {key: given[key] for key in operation.in_path})
    rest = {key: value for key, value in given.items() if key not in operation.in_path}
    content = {"params": rest} if operation.in_query else {"json": rest}
    return server.ask(operation.method, path.lstrip("/"), workspace=project, **content)


def through_http(server: Server, project: Path, name: str, given: dict[str, Any]) -> Any:
    answer = sent(server, project, name, given)
    assert answer.status_code == OPERATION[name].status, answer.text
    return answer.json()


@dataclass(frozen=True, kw_only=True)
class Doors:
    """A bank for each door. All live through the same cases, each in a project of its own."""

    folder: Path
    server: Server

    def answers(self, name: str) -> dict[str, Any]:
        told, case = {}, CASES[name]
        project = self.folder / name / "project"
        for door in ("library", "cli", "http", "mcp"):
            url = url_of(self.folder / door)
            bank, names = furnished(url, project, case)
            given = filled(case.given, names)
            if door == "mcp" and case.tool is not None:
                told[door] = through_mcp(bank, case, names)
            elif door == "http" or (door == "cli" and has_command(name)):
                bank.close()  # What it counted is in the store then.
                told[door] = (
                    through_cli(url, project, name, given)
                    if door == "cli"
                    else through_http(self.server, project, name, given)
                )
            else:
                # A bank whose door has no word for this gets it this way, and stays equal.
                told[door] = through_library(bank, name, given)
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
def test_every_operation_is_compared():
    assert set(OPERATION) == set(CASES) | set(ELSEWHERE)
    tools = {case.tool for case in CASES.values() if case.tool is not None}
    assert set(TOOLS) == tools | set(OTHER_TOOLS)


@requirement("CLI-1")
def test_every_operation_has_a_command():
    assert {name for name in CASES if not has_command(name)} == set(NO_COMMAND)


@requirement("OBS-2")
@requirement("HTTP-1")
@pytest.mark.parametrize("name", CASES)
def test_every_door_answers_with_the_same_json(name, doors):
    case = CASES[name]
    told = doors.answers(name)
    expected = told["library"]
    if name == "get":  # `show` adds what is known of it.
        told["cli"] = {key: told["cli"][key] for key in expected}
    assert told["cli"] == expected
    assert told["http"] == expected
    if case.tool is not None:
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
    """A tool may leave fields out, and says what its own answer costs; no value differs."""
    if isinstance(told, dict):
        for key in told.keys() - {"tokens_used"}:
            assert_within(told[key], expected[key])
    elif isinstance(told, list):
        assert len(told) == len(expected)
        for one, other in zip(told, expected, strict=True):
            assert_within(one, other)
    else:
        assert told == expected


@requirement("MEM-2")
def test_every_door_refuses_with_the_same_words(doors):
    wrong = LESSON | {"title": "x" * 201}
    project, url = doors.folder / "refused" / "project", url_of(doors.folder / "library")
    project.mkdir(parents=True)

    async def by_mcp() -> str:
        async with connected(bank) as agent:
            return await agent.refused("memory_record", **wrong)

    with Bank.open(url, workspace=project, settings=HASHED) as bank:
        with pytest.raises(InvalidInput) as refused:
            through_library(bank, "record", wrong)
        words = str(refused.value)
        assert words == "title: has 201 characters; at most 200 are allowed"
        # A model is told as well what the tool takes.
        assert anyio.run(by_mcp).startswith(f"{words}. memory_record takes: content, title ")
    assert json.loads(typed(url, project, "record", wrong).stdout)["message"] == words
    assert sent(doors.server, project, "record", wrong).json()["message"] == words
