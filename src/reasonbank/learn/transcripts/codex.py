"""Rollouts of Codex: ~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl.

Until autumn 2025 a line was what is the ``payload`` of one now. What hooks added has the role
``developer``, which is not read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reasonbank.learn.echo import is_own
from reasonbank.learn.session import Command, Edit, Entry, Session, told
from reasonbank.learn.transcripts.lines import code, mapping, parsed, string, text_of, when, whole
from reasonbank.learn.transcripts.reading import Reader, session_of
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_NOT_SAID = ("# AGENTS.md instructions for", "<environment_context>", "<turn_aborted>",
             "<user_instructions>", "<permissions", "<skills", "<hook_prompt")  # fmt: skip
_EXIT_CODE = re.compile(r"(?:Process exited with code|[Ee]xit code:?) (-?\d{1,6})")
_PREAMBLE = compile(r"\A(?:(?:Chunk ID|Wall time|Process exited|Exit code|Original token count|"
                       r"Total output lines)[^\n]*\n)+(?:Output:\n)?")  # fmt: skip
_PATCHED = compile(r"(?m)^\*\*\* (?:Add|Update) File: (.+)$")
_WAITING = 10
"""How far back a step may lie whose end is reported apart from it."""
_KINDS = {"session_meta", "response_item", "event_msg", "turn_context", "compacted",
          "world_state"}  # fmt: skip
_BARE = {"message", "function_call", "function_call_output", "custom_tool_call",
         "custom_tool_call_output", "local_shell_call"}  # fmt: skip


def known_by(opening: Sequence[JSON]) -> bool:
    """Every line says what it is in ``payload``; the oldest files began with instructions."""
    return any(mapping(line.get("payload")) and line.get("type") in _KINDS for line in opening) or (
        bool(opening) and "instructions" in opening[0] and "timestamp" in opening[0]
    )


def read(lines: Iterable[str], *, id: str = "") -> Session:
    return session_of(Rollout(), lines, id)


class Rollout(Reader):
    agent = "codex"

    def take(self, line: JSON) -> None:
        kind, payload = string(line.get("type")), mapping(line.get("payload"))
        at = when(line.get("timestamp"))
        if kind in _BARE:
            kind, payload = "response_item", line
        elif not kind and "instructions" in line:
            kind, payload = "session_meta", line
        match kind, string(payload.get("type")):
            case "session_meta", _:
                self._begin(payload)
            case "turn_context", _:
                self._context(payload)
            case "event_msg", "token_count":
                total = mapping(mapping(payload.get("info")).get("total_token_usage"))
                self.tokens = whole(total.get("total_tokens")) or self.tokens
            case "response_item", "message":
                self._message(payload, at)
            case "response_item", ("function_call" | "custom_tool_call" | "local_shell_call"):
                self._call(payload, at)
            case "response_item", ("function_call_output" | "custom_tool_call_output"):
                self._output(payload, at)
            case "event_msg", "turn_aborted":
                self.aborted = True
            case "event_msg", "thread_rolled_back":
                self.steps.forget_turns(whole(payload.get("num_turns")))
            case "event_msg", "item_completed":
                self._item(mapping(payload.get("item")), at)

    def _begin(self, payload: JSON) -> None:
        if not self.id:
            # A thread that another one started; a fork, which repeats it, is told by its own.
            self.part = "subagent" in mapping(payload.get("source"))
        self.id = self.id or string(payload.get("id"))
        self.directory = self.directory or string(payload.get("cwd")) or None

    def _context(self, payload: JSON) -> None:
        self.model = string(payload.get("model")) or self.model
        mode = mapping(mapping(payload.get("collaboration_mode")).get("settings"))
        said = string(payload.get("effort")) or string(mode.get("reasoning_effort"))
        self.effort = said or self.effort
        self.directory = self.directory or string(payload.get("cwd")) or None

    def _message(self, payload: JSON, at: datetime | None) -> None:
        role, said = payload.get("role"), text_of(payload.get("content"))
        if role not in ("user", "assistant") or said.lstrip().startswith(_NOT_SAID):
            return
        if said.strip():
            self.aborted = False
            self.say(said, by_user=role == "user", at=at)

    def _call(self, payload: JSON, at: datetime | None) -> None:
        name, id = string(payload.get("name")), string(payload.get("call_id"))
        given = payload.get("arguments", payload.get("input"))
        if is_own(tool=name) or is_own(tool=string(payload.get("namespace"))):
            return
        arguments = parsed(payload.get("action") or given)
        command = _command(arguments.get("command", arguments.get("cmd")))
        if name == "apply_patch" or command.startswith("apply_patch"):
            self._patch(id, string(given) if name == "apply_patch" else command, at)
        elif command and not is_own(command=command):
            entry = Command(number=0, command=told(command), output="", exit_code=None, at=at)
            self.wait_for(id, [self.steps.add(entry)])

    def _patch(self, id: str, patch: str, at: datetime | None) -> None:
        added = "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+"))
        places = [
            self.steps.add(Edit(number=0, path=told(path.strip()), change=told(added), at=at))
            for path in _PATCHED.findall(patch)
        ]
        self.wait_for(id, places)

    def _output(self, payload: JSON, at: datetime | None) -> None:
        places = self.call(string(payload.get("call_id"))) or [0]
        if isinstance(command := self.steps.at(places[0]), Command):
            output, exit_code = _ended(payload.get("output"))
            exit_code = command.exit_code if exit_code is None else exit_code
            output = told(output) or command.output
            done = replace(command, output=output, exit_code=exit_code, at=at or command.at)
            self.steps.put(places[0], done)

    def _item(self, item: JSON, at: datetime | None) -> None:
        """Newer versions report what a step came to in an item of its own."""
        match string(item.get("type")):
            case "CommandExecution" | "command_execution":
                self._executed(item, at)
            case "FileChange" | "file_change":
                if item.get("status") not in ("failed", "declined"):
                    self._changed(item.get("changes"), at)

    def _executed(self, item: JSON, at: datetime | None) -> None:
        command = told(_command(item.get("command")))
        if not command or is_own(command=command):
            return
        done = Command(
            number=0,
            command=command,
            output=told(string(item.get("aggregated_output"))),
            exit_code=code(item.get("exit_code")),
            at=at,
        )

        def is_it(entry: Entry) -> bool:
            return isinstance(entry, Command) and entry.command == command

        place = self.steps.latest(_WAITING, is_it)
        known = self.steps.at(place) if place is not None else None
        if place is None or not isinstance(known, Command):
            self.steps.add(done)
        elif known.exit_code in (None, done.exit_code):
            self.steps.put(place, replace(done, output=done.output or known.output))
        else:
            self.steps.add(done)

    def _changed(self, changes: Any, at: datetime | None) -> None:
        """Files that were changed, unless the patch that did it was told before."""
        for change in list(changes) if isinstance(changes, dict | list) else []:
            given = mapping(change).get("path") if isinstance(change, dict) else change
            path = told(string(given))

            def is_it(entry: Entry, path: str = path) -> bool:
                # A patch names files from the project on, its report from the root.
                return isinstance(entry, Edit) and _is_same(entry.path, path)

            if path and self.steps.latest(_WAITING, is_it) is None:
                self.edited(path, "", at)


def _is_same(patched: str, reported: str) -> bool:
    return patched == reported or reported.endswith("/" + patched.removeprefix("./"))


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
    told = parsed(output) if string(output).startswith("{") else mapping(output)
    if told:
        printed = text_of(told.get("output") or told.get("content"))
        return printed, code(mapping(told.get("metadata")).get("exit_code"))
    printed = text_of(output)
    found = _EXIT_CODE.search(printed[:500]) or _EXIT_CODE.search(printed[-200:])
    return _PREAMBLE.sub("", printed), int(found[1]) if found else None
