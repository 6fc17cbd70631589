"""A secret in any argument of any method reaches no file, no log and no error.

Nobody keeps a list of places: every public method of `Bank` is called by its signature, with the
secret in one argument after the other, and then the bytes of all files are searched.
"""

import inspect
import io
import json
import logging
import os
import random
import subprocess
import sys
from dataclasses import fields, replace

import anyio
from tests.conftest import HASHED
from tests.requirement import requirement
from tests.safety.secrets_made_up import made_up
from tests.surfaces.http_server import a_token, serving
from tests.surfaces.mcp_agent import connected

from reasonbank import Bank, Filter, Settings, Step
from reasonbank.access import TokenStore
from reasonbank.errors import ReasonBankError
from reasonbank.settings import Embed
from reasonbank.testing import a_memory, a_trace, a_warning

CANARY = made_up("ghp_{an:36}", random.Random(11))
OTHER = made_up("ghp_{an:36}", random.Random(12))
COMMAND = (sys.executable, "-m", "reasonbank.surfaces.cli")
ASIDE = {"open", "close", "solve", "import_", "export", "backup", "context"}


def said(text="x"):
    return f"{text} {CANARY}"


def memory_with_it():
    memory = a_warning(
        title=said(), description=said(), content=said(), domain=said(), agent=said(),
        source_session=said(), tags=(CANARY, said("tag")),
    )  # fmt: skip
    error = memory.error_context
    texts = {
        f.name: said() for f in fields(error) if isinstance(getattr(error, f.name), str | None)
    }
    return replace(memory, error_context=replace(error, **texts))


def trace_with_it():
    step = Step(iteration=1, action=said(), content=said(), feedback=said())
    return a_trace(
        task=said(), trajectory=(step,),
        metadata={"session": said(), said("key"): {"deep": [said()]}, "agent": CANARY},
    )  # fmt: skip


def harmless(name, annotation, known):
    """Something that fits a parameter that has no default."""
    if "Memory" in annotation:
        return a_memory()
    if "Trace" in annotation:
        return a_trace()
    if name in ("id", "source", "target", "memory"):
        return known
    return {
        "helpful": True, "succeeded": True, "kept": True, "older_than_days": 1, "type": "related",
        "answer": {}, "path": "/elsewhere", "workspace": "/elsewhere",
    }.get(name, "harmless")  # fmt: skip


def poisoned(name, annotation):
    """What can be put into a parameter, with the secret in it; nothing for numbers and flags."""
    if "Memory" in annotation:
        return [memory_with_it()]
    if "Trace" in annotation:
        return [trace_with_it()]
    if "Filter" in annotation:
        return [Filter(tags=(said(),), domain=said())] if "domain" in Filter.__annotations__ else []
    if "Mapping" in annotation:
        return [{"memories": [{"title": said(), "content": said()}], said(): said()}]
    if "Any" in annotation:  # the fields to update
        return [{"title": said(), "content": said(), "tags": (CANARY,), "domain": said()}]
    if any(word in annotation for word in ("bool", "int", "float", "Progress", "Newest", "Days",
                                           "Results", "Budget", "Share", "DryRun", "Everywhere",
                                           "RevisionNumber", "Right")):  # fmt: skip
        return []
    return [said(), CANARY, f"token={CANARY}"]


def calls(bank, known):
    """(method, arguments) with the secret in one argument each."""
    for name, method in inspect.getmembers(Bank, inspect.isfunction):
        if name.startswith("_") or name in ASIDE:
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        needed = {
            p.name: harmless(p.name, str(p.annotation), known)
            for p in parameters
            if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        }
        for p in parameters:
            for value in poisoned(p.name, str(p.annotation)):
                given = value if p.kind is p.VAR_KEYWORD else {p.name: value}
                yield name, needed | given


def raw_in(folder):
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    ]


@requirement("SEC-4")
@requirement("DIS-10")
def test_no_argument_of_any_method_puts_a_secret_anywhere(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "bank"
    folder.mkdir()
    bank = Bank.open(
        f"sqlite:///{folder}/bank.db",
        workspace=tmp_path,
        settings=Settings(embed=Embed(model="hashed")),
    )
    known = bank.record(a_memory()).id
    count, refused = 0, []
    for name, arguments in calls(bank, known):
        count += 1
        try:
            answer = getattr(bank, name)(**arguments)
            if isinstance(answer, Bank):
                answer.record(a_memory())
                answer.search("anything at all", session=said())
        except (ReasonBankError, TypeError, ValueError) as error:
            refused.append(f"{name}: {error} {vars(error)}")
    assert count > 60
    assert not [said for said in refused if CANARY in said]
    TokenStore(bank).create(scope="read", name=said("token of"))
    bank.within(tmp_path / CANARY).record(a_memory())
    log = io.StringIO()
    bank.export(log)
    assert CANARY not in log.getvalue()
    bank.store.flush()
    assert raw_in(folder) == []
    bank.close()
    assert raw_in(folder) == []
    told = capfd.readouterr()
    assert CANARY not in told.out + told.err + caplog.text


@requirement("SEC-4")
def test_a_session_named_by_a_secret_is_one_session_and_another_is_another(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.outcome(memory.id, succeeded=True, session=said("run"))
    plain_bank.outcome(memory.id, succeeded=True, session=said("run"))
    assert len(plain_bank.evidence(memory.id)) == 1
    plain_bank.outcome(memory.id, succeeded=True, session=f"run {OTHER}")
    assert len({e.session for e in plain_bank.evidence(memory.id)}) == 2
    found = plain_bank.search(memory.title, session=said("task"))
    assert found.hits
    assert plain_bank.credit(said("task"), succeeded=True) >= 1
    assert plain_bank.credit(f"task {OTHER}", succeeded=True) == 0


def test_a_workspace_whose_path_holds_a_secret_is_found_again(open_bank, tmp_path):
    place = tmp_path / CANARY
    with open_bank(workspace=place) as bank:
        memory = bank.record(a_memory())
        stored = next(w for w in bank.workspaces() if w.memories)
        assert CANARY not in stored.path
    with open_bank(workspace=place) as again:
        assert again.get(memory.id).title == memory.title


@requirement("SEC-4")
def test_no_command_prints_or_stores_a_secret_it_was_given(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    environment = os.environ | {
        "HOME": str(home), "XDG_DATA_HOME": str(home), "REASONBANK_EMBED_MODEL": "hashed",
        "REASONBANK_LOG_LEVEL": "debug",
    }  # fmt: skip
    for arguments in (
        ["record", "--title", said(), "--description", said(), "--content", said(),
         "--outcome", "success", "--tag", CANARY],
        ["search", said(), "--session", said()],
        ["capture", said("How do I push?"), "-"],
        ["show", CANARY],
        ["workspace", "name", CANARY, said()],
        ["token", "create", "--scope", "read", "--name", said()],
        ["feedback", CANARY, "--helpful"],
    ):  # fmt: skip
        done = subprocess.run(
            [*COMMAND, "--bank", f"sqlite:///{home}/b.db", *arguments], capture_output=True,
            text=True, cwd=tmp_path, env=environment, input=said("Because so. " * 30),
        )  # fmt: skip
        assert CANARY not in done.stdout + done.stderr, arguments
    assert raw_in(home) == []


@requirement("SEC-4")
def test_no_http_call_stores_logs_or_repeats_a_secret(tmp_path):
    token = a_token(tmp_path, "admin")
    with serving(tmp_path, REASONBANK_LOG_LEVEL="debug") as server:
        with server.client(token) as client:
            lesson = {
                "title": said(),
                "description": said(),
                "content": said(),
                "outcome": "success",
            }
            answers = [
                client.post("/memories", json=lesson),
                client.post("/memories", json=lesson | {CANARY: 1}),
                client.post("/search", json={"query": said(), "session": said()}),
                client.get(f"/memories/{CANARY}"),
                client.get("/workspaces", params={"workspace": CANARY}),
                client.post("/tokens", json={"scope": "read", "name": said()}),
                client.post("/capture", json={"question": said("How?"), "answer": said("x")}),
            ]
            assert all(CANARY not in answer.text for answer in answers), [a.text for a in answers]
        assert server.stop() == 0
    assert raw_in(tmp_path) == []
    assert json.dumps(CANARY) not in (tmp_path / "stderr").read_text()


@requirement("SEC-4")
def test_no_tool_of_an_agent_stores_or_repeats_a_secret(tmp_path):
    """Each text of each tool in turn, over the protocol."""
    with Bank.open(f"sqlite:///{tmp_path}/bank.db", workspace=tmp_path, settings=HASHED) as bank:

        async def talk():
            async with connected(bank) as agent:
                for tool in (await agent.client.list_tools()).tools:
                    if tool.name in ("memory_solve", "solve"):
                        continue
                    told = {name: said() for name, kind in tool.input_schema["properties"].items()
                            if "string" in json.dumps(kind)}  # fmt: skip
                    for name in told:
                        answer = await agent.client.call_tool(tool.name, told | {name: said()})
                        assert CANARY not in answer.model_dump_json(), (tool.name, name)

        anyio.run(talk)
    assert raw_in(tmp_path) == []


@requirement("DIS-10")
@requirement("SEC-4")
def test_an_imported_log_brings_no_secret_along(open_bank):
    """Written by a bank that scrubs nothing, in every place that has a name or a text."""
    careless = open_bank("careless", settings=replace(HASHED, scrub=False))
    theirs = Bank(careless.context.seen_by(author=said()))
    memory = theirs.record(memory_with_it())
    theirs.search(memory.title, session=said())
    theirs.credit(said(), succeeded=True)
    theirs.feedback(memory.id, helpful=True, session=said(), comment=said())
    theirs.store_trace(trace_with_it())
    theirs.name_workspace(theirs.view.workspace, said()[:100])
    file = io.StringIO()
    theirs.export(file)
    assert CANARY in file.getvalue()
    for trusted in (False, True):
        name = f"careful {trusted}"
        with open_bank(name) as bank:
            file.seek(0)
            bank.import_(file, trusted=trusted)
        found = [f for f in open_bank.folder.glob(f"{name}*") if CANARY.encode() in f.read_bytes()]
        assert found == []
