"""Rollouts of Codex: ~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from reasonbank.learn.session import Command, Edit, Entry, Session, Turn, is_own, numbered, told
from reasonbank.learn.transcripts import facts, mapping, objects, string, text_of, whole
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_NOT_SAID = ("# AGENTS.md instructions for", "<environment_context>", "<turn_aborted>",
             "<user_instructions>", "<permissions", "<skills")  # fmt: skip
_EXIT_CODE = re.compile(r"(?:Process exited with code|[Ee]xit code:?) (-?\d{1,6})")
_PREAMBLE = compile(r"\A(?:(?:Chunk ID|Wall time|Process exited|Exit code|Original token count|"
                       r"Total output lines)[^\n]*\n)+(?:Output:\n)?")  # fmt: skip
_PATCHED = compile(r"(?m)^\*\*\* (?:Add|Update) File: (.+)$")
_WAITING = 10
"""How far back a command may lie whose end is reported apart from it."""


def known_by(first: str, text: str) -> bool:
    """Every line says what it is in ``payload``."""
    return '"payload"' in first


def read(lines: Iterable[str], *, id: str = "") -> Session:
    """``id`` names the session where the rollout does not."""
    reader = _Reader()
    for line in objects(lines):
        reader.take(string(line.get("type")), mapping(line.get("payload")))
    return Session(
        id=reader.id or id or "unknown",
        agent="codex",
        entries=numbered(reader.entries),
        directory=reader.directory,
        aborted=reader.aborted,
        facts=facts(reader.model, reader.tokens, reader.effort),
    )


class _Reader:
    def __init__(self) -> None:
        self.id = ""
        self.directory: str | None = None
        self.aborted = False
        self.model = self.effort = ""
        self.tokens = 0
        self.entries: list[Entry] = []
        self.calls: dict[str, int] = {}
        """Where the command of a call stands; -1 for a call that is ours."""

    def take(self, kind: str, payload: JSON) -> None:
        match kind, string(payload.get("type")):
            case "session_meta", _:
                self.id = self.id or string(payload.get("id"))
                self.directory = self.directory or string(payload.get("cwd")) or None
            case "turn_context", _:
                self.model = string(payload.get("model")) or self.model
                mode = mapping(mapping(payload.get("collaboration_mode")).get("settings"))
                said = string(payload.get("effort")) or string(mode.get("reasoning_effort"))
                self.effort = said or self.effort
            case "event_msg", "token_count":
                total = mapping(mapping(payload.get("info")).get("total_token_usage"))
                self.tokens = whole(total.get("total_tokens")) or self.tokens
            case "response_item", "message":
                self._message(payload)
            case "response_item", ("function_call" | "custom_tool_call" | "local_shell_call"):
                self._call(payload)
            case "response_item", ("function_call_output" | "custom_tool_call_output"):
                self._output(payload)
            case "event_msg", "turn_aborted":
                self.aborted = True
            case "event_msg", "thread_rolled_back":
                self._roll_back(payload.get("num_turns"))
            case "event_msg", "item_completed":
                self._item(mapping(payload.get("item")))

    def _message(self, payload: JSON) -> None:
        role, said = payload.get("role"), text_of(payload.get("content"))
        if role not in ("user", "assistant") or said.lstrip().startswith(_NOT_SAID):
            return
        if text := told(said).strip():
            self.aborted = False
            self.entries.append(Turn(number=0, by_user=role == "user", text=text))

    def _call(self, payload: JSON) -> None:
        name, id = string(payload.get("name")), string(payload.get("call_id"))
        given = payload.get("arguments", payload.get("input"))
        if is_own(tool=name) or is_own(tool=string(payload.get("namespace"))):
            self.calls[id] = -1
            return
        arguments = _arguments(payload.get("action") or given)
        command = _command(arguments.get("command", arguments.get("cmd")))
        if name == "apply_patch" or command.startswith("apply_patch"):
            self._patch(string(given) if name == "apply_patch" else command)
        elif command:
            self._start(id, command)

    def _start(self, id: str, command: str) -> None:
        if is_own(command=command):
            self.calls[id] = -1
            return
        self.calls[id] = len(self.entries)
        self.entries.append(Command(number=0, command=told(command), output="", exit_code=None))

    def _patch(self, patch: str) -> None:
        added = "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+"))
        for path in _PATCHED.findall(patch):
            self.entries.append(Edit(number=0, path=told(path.strip()), change=told(added)))

    def _output(self, payload: JSON) -> None:
        at = self.calls.get(string(payload.get("call_id")), -1)
        if 0 <= at < len(self.entries) and isinstance(command := self.entries[at], Command):
            output, exit_code = _ended(payload.get("output"))
            self.entries[at] = replace(command, output=told(output), exit_code=exit_code)

    def _item(self, item: JSON) -> None:
        """Newer versions report what a command came to in an item of its own."""
        match string(item.get("type")):
            case "CommandExecution" | "command_execution":
                self._executed(item)
            case "FileChange" | "file_change":
                if item.get("status") not in ("failed", "declined"):
                    self._changed(item.get("changes"))

    def _executed(self, item: JSON) -> None:
        command = told(_command(item.get("command")))
        exit_code = item.get("exit_code")
        if not command or is_own(command=command):
            return
        done = Command(
            number=0,
            command=command,
            output=told(string(item.get("aggregated_output"))),
            exit_code=exit_code if type(exit_code) is int else None,
        )
        for at in range(len(self.entries) - 1, max(-1, len(self.entries) - 1 - _WAITING), -1):
            known = self.entries[at]
            if isinstance(known, Command) and known.command == command:
                if known.exit_code in (None, done.exit_code):
                    self.entries[at] = replace(done, output=done.output or known.output)
                    return
                break
        self.entries.append(done)

    def _changed(self, changes: Any) -> None:
        paths = list(changes) if isinstance(changes, dict | list) else []
        for path in paths:
            name = told(string(mapping(path).get("path") if isinstance(path, dict) else path))
            recent = [e.path for e in self.entries[-_WAITING:] if isinstance(e, Edit)]
            if name and name not in recent:
                self.entries.append(Edit(number=0, path=name))

    def _roll_back(self, turns: Any) -> None:
        """The user took the last turns back: what was done in them did not happen."""
        asked = [n for n, e in enumerate(self.entries) if isinstance(e, Turn) and e.by_user]
        if type(turns) is int and turns > 0 and asked:
            del self.entries[asked[-min(turns, len(asked))] :]


def _arguments(value: Any) -> JSON:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return mapping(value)


def _command(value: Any) -> str:
    """The command as a person would type it: without the shell around it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        return ""
    if len(value) == 3 and value[1] in ("-c", "-lc"):
        return string(value[2])
    return shlex.join(value)


def _ended(output: Any) -> tuple[str, int | None]:
    """What a command printed, and its exit code where the output tells it."""
    told = _arguments(output) if string(output).startswith("{") else mapping(output)
    if told:
        exit_code = mapping(told.get("metadata")).get("exit_code")
        printed = text_of(told.get("output") or told.get("content"))
        return printed, exit_code if type(exit_code) is int else None
    printed = text_of(output)
    found = _EXIT_CODE.search(printed[:500]) or _EXIT_CODE.search(printed[-200:])
    return _PREAMBLE.sub("", printed), int(found[1]) if found else None
