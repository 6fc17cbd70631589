"""Every way into a bank, and the verbs of each."""

from __future__ import annotations

import io
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import httpx2
from canaries import Canaries, Place
from canary_arguments import Maker, NoWay
from click.testing import CliRunner
from tests.surfaces.http_server import environment

from reasonbank.errors import ReasonBankError
from reasonbank.fields import plain
from reasonbank.model import Scope
from reasonbank.surfaces import shapes
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.cli.shell import main
from reasonbank.surfaces.mcp.memory_tools import TOOLS
from reasonbank.surfaces.mcp.server import BankTool
from reasonbank.surfaces.operations import OPERATIONS, Operation

OPERATION = {operation.name: operation for operation in OPERATIONS}
# A worker of the server must not learn while others are watched.
QUIET = {
    f"REASONBANK_SCHEDULE_{kind}_HOURS": 0 for kind in ("CONSOLIDATE", "MAINTAIN", "PROMOTE")
} | {"REASONBANK_LEARN_REASONER": "agent", "REASONBANK_SERVER_RATE": 100_000}
PAGES = ("/", "/memory/{id}", "/report", "/metrics", "/readyz", "/livez", "/openapi.json")
REQUESTS = (
    "resources/list", "resources/templates/list", "resources/read memory",
    "resources/read trace", "prompts/list", "prompts/get", "tools/list",
)  # fmt: skip
NOT_CALLED = {
    "serve": "is the way in over HTTP", "mcp": "is the way in over standard streams",
    "worker": "does the jobs of all workspaces", "demo": "has a bank of its own",
    "backfill": "reads files of this machine's owner, into all workspaces",
    "mirror": "writes files, for who runs on this machine",
    "install": "opens no bank", "uninstall": "opens no bank",
    "hook": "answers an agent of this machine's owner",
    "backup": "writes the whole bank to a file, for who runs on this machine",
    "migrate": "moves the whole bank, for who can read and write both places",
    "peer": "calls other banks, for who runs on this machine",
}  # fmt: skip
# What concerns the whole bank, for whoever looks after it or runs on this machine.
WHOLE = frozenset({
    "workspaces", "name_workspace", "move_workspace", "merge_workspace", "join_workspace",
    "delete_workspace", "workspace merge", "workspace join", "reset_statistics",
    "promote", "maintain", "embed_new", "reindex", "rebuild", "import", "create_token", "tokens",
    "revoke_token", "workspace", "workspace list", "workspace name", "workspace move",
    "workspace delete", "token create", "token list", "token revoke", "doctor",
    "peers", "trust_peer", "revoke_peer",
})  # fmt: skip
SHARING = frozenset({"promote"})


# What there is


def operation_names(operation: Operation) -> dict[str, bool]:
    """What is sent, and whether it must be."""
    shape = shapes.taken(operation)
    sent = dict.fromkeys(operation.in_path, True)
    if shape is not None:
        sent |= {name: name in shape.__required_keys__ for name in shape.__annotations__}
    return sent


def tool_names(name: str) -> dict[str, bool]:
    schema = BankTool.of(TOOLS[name]).parameters
    names = {each: each in schema.get("required", ()) for each in schema["properties"]}
    del names["workspace"]
    return names


def commands() -> dict[str, click.Command]:
    def walk(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            if isinstance(found, click.Group):
                yield from walk(found, f"{before}{name} ")
            else:
                yield f"{before}{name}", found

    return {
        name: found for name, found in walk(main, "") if name.partition(" ")[0] not in NOT_CALLED
    }


# Ways in


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever calls: somebody on this machine, or with a token."""

    side: str | None = None
    bound: bool = False
    may_share: frozenset[Scope] = frozenset(Scope)

    @property
    def local(self) -> bool:
        return self.side is None

    @property
    def whole(self) -> bool:
        return self.side == "admin" and not self.bound

    @property
    def name(self) -> str:
        return "owner" if self.local else f"{'bound' if self.bound else 'unbound'} {self.side}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    text: str
    done: bool
    sent: str


class Door:
    """``verbs`` come round in a new order each time, so that none is left out."""

    def __init__(self, verbs: list[str], rng: random.Random) -> None:
        self.verbs, self._rng = verbs, rng
        self._turn = self._turns()

    def _turns(self) -> Iterator[str]:
        while True:
            yield from self._rng.sample(self.verbs, len(self.verbs))

    def next(self) -> str:
        return next(self._turn)

    def ask(self, maker: Maker, verb: str) -> dict[str, Any]:
        raise NotImplementedError

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        raise NotImplementedError

    def seen_from(self, caller: Caller, place: Place, verb: str, given: Mapping[str, Any]) -> Place:
        """Where the caller stands: unless it is bound, where it says."""
        return place

    def close(self) -> None:
        """Nothing is held."""


def everything(verb: str, given: Mapping[str, Any]) -> bool:
    """Whether this asks for the whole bank."""
    if (
        verb in WHOLE
        or given.get("everywhere")
        or given.get("reset")
        or given.get("rebuild")
        or given.get("now")
    ):
        return True
    return verb == "export" and not given.get("only_here")


class Library(Door):
    def __init__(self, canaries: Canaries, rng: random.Random, settings: Any) -> None:
        super().__init__(sorted(OPERATION), rng)
        self.bank = canaries.open(canaries.places[0].path, settings)

    def ask(self, maker: Maker, verb: str) -> dict[str, Any]:
        given = maker.arguments(verb, operation_names(OPERATION[verb]))
        return given | ({"file": maker.plain_memories()} if verb == "import" else {})

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        operation = OPERATION[verb]
        call = Call(root=self.bank.within(place.path), surface="library")
        sent = json.dumps(given)
        file = io.StringIO(given.get("file", ""))
        rest = {name: value for name, value in given.items() if name != "file"}
        named = {name: rest.pop(name) for name in operation.in_path}
        if verb in ("import", "export"):
            named["file"] = file
        try:
            options = named | shapes.arguments(operation, rest)
            told = json.dumps(plain(operation.perform(call, options)))
        except ReasonBankError as error:
            return Answer(text=f"{type(error).__name__}: {error}", done=False, sent=sent)
        finally:
            self.bank.store.flush()
        return Answer(text=told + file.getvalue() * (verb == "export"), done=True, sent=sent)

    def close(self) -> None:
        self.bank.close()


class CommandLine(Door):
    """In this process; every so often in one of its own."""

    def __init__(self, canaries: Canaries, rng: random.Random, *, every: int) -> None:
        self._commands = commands()
        super().__init__(sorted(self._commands), rng)
        self._canaries, self._every = canaries, every
        self._files = itertools.count()
        self._calls = itertools.count(1)
        self.folder = canaries.folder / "files"
        self.folder.mkdir()

    def ask(self, maker: Maker, verb: str) -> dict[str, Any]:
        names = {parameter.name or "": parameter.required
                 for parameter in self._commands[verb].params
                 if parameter.name not in ("url", "workspace", "as_json")}  # fmt: skip
        file = "file" in names
        names.pop("file", None)
        given = maker.arguments(verb, names)
        if file:
            given["file"] = self._file(maker, verb)
        return given

    def _file(self, maker: Maker, verb: str) -> str:
        path = self.folder / f"{next(self._files)}.json"
        match verb:
            case "export" | "audit":
                return str(path)
            case "import":
                path.write_text(maker.plain_memories())
            case "ticket submit":
                path.write_text(json.dumps(maker.answer()))
            case "distil" | "ticket prepare" | "trace store":
                path.write_text(json.dumps(maker.session_told(), indent=1))
            case _:
                raise NoWay(f"{verb}: what is in its file?")
        return str(path)

    def _words(self, verb: str, given: dict[str, Any]) -> Iterator[str]:
        yield from verb.split()
        positional = []
        for parameter in self._commands[verb].params:
            if parameter.name not in given:
                continue
            value = given[parameter.name]
            if isinstance(parameter, click.Argument):
                positional.append(str(value))
            elif getattr(parameter, "is_flag", False):
                if value or parameter.secondary_opts:
                    yield (parameter.opts if value else parameter.secondary_opts)[0]
            else:
                for each in value if isinstance(value, list) else [value]:
                    yield from (parameter.opts[0], str(each))
        yield from positional

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        count = next(self._calls)
        words = ["--bank", self._canaries.url, "--workspace", place.path]
        words += ["--json"] if count % 3 else []
        words += self._words(verb, given)
        known = environment(self._canaries.folder, REASONBANK_AUTHOR="owner")
        sent = json.dumps(words) + (Path(given["file"]).read_text()
                                    if Path(given.get("file", "-")).exists() else "")  # fmt: skip
        if count % self._every == 0:
            done = subprocess.run(
                [sys.executable, "-m", "reasonbank.surfaces.cli", *words], env=known,
                cwd=place.path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            code, told = done.returncode, done.stdout + done.stderr
        else:
            ran = CliRunner(env=known).invoke(main, words)
            assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
            code, told = ran.exit_code, ran.output
        assert code != 1 or "Aborted" in told, (words, told)
        if verb in ("export", "audit") and Path(given.get("file", "-")).exists():
            told += Path(given["file"]).read_text()
        return Answer(text=told, done=code == 0, sent=sent)


class HTTP(Door):
    def __init__(self, canaries: Canaries, rng: random.Random, address: str) -> None:
        super().__init__([*sorted(OPERATION), *PAGES], rng)
        self._canaries = canaries
        self._client = httpx2.Client(base_url=address, timeout=60)

    def ask(self, maker: Maker, verb: str) -> dict[str, Any]:
        if verb in PAGES:
            given = {"id": maker.memory()} if "{id}" in verb else {}
        else:
            given = maker.arguments(verb, operation_names(OPERATION[verb]))
            given |= {"file": maker.plain_memories()} if verb == "import" else {}
        return given | _elsewhere(maker)

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        sent = json.dumps(given)
        rest = dict(given)
        headers = _headers(self._canaries, caller, place, rest)
        if verb in PAGES:
            told = self._client.get(verb.format(**rest), headers=headers)
            return Answer(text=told.text, done=told.status_code < 300, sent=sent)
        operation = OPERATION[verb]
        path = operation.path.format(
            **{name: quote(str(rest.pop(name)), safe="") for name in operation.in_path}
        )
        content: dict[str, Any] = {"json": rest}
        if verb == "import":
            content = {"content": rest["file"].encode()}
        elif operation.in_query:
            content = {"params": {name: str(value).lower() if isinstance(value, bool) else value
                                  for name, value in rest.items()}}  # fmt: skip
        told = self._client.request(operation.method, f"/api/v1{path}", headers=headers, **content)
        assert told.status_code != 500, (verb, given, told.text)
        return Answer(text=told.text, done=told.status_code < 300, sent=sent)

    def close(self) -> None:
        self._client.close()


def _elsewhere(maker: Maker) -> dict[str, Any]:
    """One that is bound to its own workspace may name another."""
    if maker.chance(0.8):
        return {}
    return {"_workspace": maker.workspace()}


def _headers(
    canaries: Canaries, caller: Caller, place: Place, given: dict[str, Any]
) -> dict[str, str]:
    tokens = place.tokens if caller.bound else canaries.unbound
    headers = {"Authorization": f"Bearer {tokens[str(caller.side)]}"}
    elsewhere = given.pop("_workspace", None)
    if not caller.bound:
        headers["X-ReasonBank-Workspace"] = place.path
    elif elsewhere is not None:
        headers["X-ReasonBank-Workspace"] = elsewhere
    return headers


class MCP(Door):
    """What both transports share: what is asked, and how."""

    def __init__(self, canaries: Canaries, rng: random.Random) -> None:
        super().__init__([*sorted(TOOLS), *REQUESTS], rng)
        self._canaries = canaries

    def seen_from(self, caller: Caller, place: Place, verb: str, given: Mapping[str, Any]) -> Place:
        switches = verb == "workspace" and given.get("action") == "switch"
        named = given.get("target" if switches else "project_id")
        if named is None or caller.bound:
            return place
        return next(p for p in self._canaries.places if named in (p.id, p.name, p.path))

    def ask(self, maker: Maker, verb: str) -> dict[str, Any]:
        if verb in TOOLS:
            return maker.arguments(verb, tool_names(verb)) | _elsewhere(maker)
        match verb:
            case "resources/read memory":
                return {"uri": f"memory://{maker.memory()}"}
            case "resources/read trace":
                return {"uri": f"trace://{maker.trace()}"}
            case "prompts/get":
                return {"name": "judge", "arguments": {"record": maker.fresh()}}
            case "resources/list" | "resources/templates/list" | "prompts/list" | "tools/list":
                return {}
        raise NoWay(verb)

    def message(self, verb: str, given: dict[str, Any]) -> dict[str, Any]:
        if verb in TOOLS:
            method, params = "tools/call", {"name": verb, "arguments": given}
        else:
            method, params = verb.partition(" ")[0], given
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def answered(self, told: dict[str, Any], sent: str) -> Answer:
        done = "error" not in told and not told["result"].get("isError")
        return Answer(text=json.dumps(told, ensure_ascii=False), done=done, sent=sent)


class StandardStreams(MCP):
    """A process that stays; resources are those of the directory that it was started in."""

    def __init__(self, canaries: Canaries, rng: random.Random) -> None:
        super().__init__(canaries, rng)
        self._home = canaries.places[0]
        self._count = itertools.count(1)
        known = environment(canaries.folder, REASONBANK_URL=canaries.url, **QUIET)
        self._log = open(canaries.folder / "mcp.log", "wb")  # noqa: SIM115
        self._server = subprocess.Popen(
            [sys.executable, "-m", "reasonbank.surfaces.cli", "mcp"], cwd=self._home.path,
            env=known, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self._ask({"method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "canary", "version": "1"}}})  # fmt: skip
        self._tell({"method": "notifications/initialized"})

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self._server.stdin.flush()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdout is not None
        number = next(self._count)
        self._tell(message | {"id": number})
        while line := self._server.stdout.readline():
            told: dict[str, Any] = json.loads(line)
            if told.get("id") == number:
                return told
        raise AssertionError("the server has ended")

    def seen_from(self, caller: Caller, place: Place, verb: str, given: Mapping[str, Any]) -> Place:
        return super().seen_from(caller, place if verb in TOOLS else self._home, verb, given)

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        rest = {name: value for name, value in given.items() if name != "_workspace"}
        if verb in TOOLS:
            rest["workspace"] = place.path
        return self.answered(self._ask(self.message(verb, rest)), json.dumps(given))

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(60)
        self._server.stdout.close()
        self._log.close()


class MCPOverHTTP(MCP):
    def __init__(self, canaries: Canaries, rng: random.Random, address: str) -> None:
        super().__init__(canaries, rng)
        self._client = httpx2.Client(base_url=address, timeout=60)

    def call(self, caller: Caller, place: Place, verb: str, given: dict[str, Any]) -> Answer:
        rest = dict(given)
        headers = _headers(self._canaries, caller, place, rest)
        accepted = "application/json, text/event-stream"
        told = self._client.post(
            "/mcp", json=self.message(verb, rest) | {"id": 1},
            headers=headers | {"Accept": accepted, "MCP-Protocol-Version": "2025-06-18"},
        )  # fmt: skip
        sent = json.dumps(given)
        if told.status_code != 200:
            return Answer(text=told.text, done=False, sent=sent)
        events = [line[6:] for line in told.text.split("\n") if line.startswith("data: {")]
        return self.answered(json.loads(events[-1] if events else told.text), sent)

    def close(self) -> None:
        self._client.close()
