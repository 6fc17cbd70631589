"""Chats of Qwen Code: ~/.qwen/projects/<project>/chats/<session>.jsonl.

The envelope is Claude Code's, the messages are Gemini's: their content is in ``parts``. What
hooks added is in <qwen:user-prompt-submit-context>, or at the end of what a tool answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reasonbank.learn.echo import is_own
from reasonbank.learn.session import Session
from reasonbank.learn.transcripts.gemini_cli import ended, response
from reasonbank.learn.transcripts.lines import (
    code,
    first,
    items,
    mapping,
    string,
    text_of,
    when,
    whole,
)
from reasonbank.learn.transcripts.reading import Reader, changed, session_of
from reasonbank.model import JSON

_SHELL = {"run_shell_command", "shell"}
_EDITING = {"write_file", "edit", "replace"}


def known_by(opening: Sequence[JSON]) -> bool:
    return any(
        "sessionId" in line and ("parts" in mapping(line.get("message")) or "systemPayload" in line)
        for line in opening
    )


def read(lines: Iterable[str], *, id: str = "") -> Session:
    return session_of(Chat(), lines, id)


class Chat(Reader):
    agent = "qwen-code"

    def take(self, line: JSON) -> None:
        self.id = self.id or string(line.get("sessionId"))
        self.directory = self.directory or string(line.get("cwd")) or None
        at = when(line.get("timestamp"))
        parts = items(mapping(line.get("message")).get("parts"))
        if line.get("isSidechain") or not self.is_new(string(line.get("uuid"))):
            return
        match line.get("type"):
            case "user" if line.get("provenance") in (None, "real_user"):
                shown = first(mapping(line.get("systemPayload")), "displayText")
                self.say(shown or text_of(parts), by_user=True, at=at)
            case "assistant":
                self.model = string(line.get("model")) or self.model
                self.tokens += whole(mapping(line.get("usageMetadata")).get("totalTokenCount"))
                said = [part for part in parts if not part.get("thought")]
                self.say(text_of(said), by_user=False, at=at)
                for part in parts:
                    call = mapping(part.get("functionCall"))
                    self.wait_for(string(call.get("id")), call)
            case "tool_result":
                self._result(line, parts)

    def _result(self, line: JSON, parts: list[JSON]) -> None:
        told = mapping(line.get("toolCallResult"))
        id = string(told.get("callId"))
        call = mapping(self.call(id))
        name, arguments = string(call.get("name")), mapping(call.get("args"))
        if name == "tool_call":  # How it calls what a server offers.
            name, arguments = string(arguments.get("name")), mapping(arguments.get("arguments"))
        if is_own(tool=name):
            return
        status, at = string(told.get("status")), when(line.get("timestamp"))
        if name in _SHELL:
            output, exit_code = ended(response(parts), status)
            shown = mapping(told.get("resultDisplay"))
            if "exitCode" in shown:
                output, exit_code = string(shown.get("output")), code(shown.get("exitCode"))
            self.aborted = status == "cancelled"
            self.ran(string(arguments.get("command")), output, exit_code, at)
        elif name in _EDITING and status == "success":
            path = first(arguments, "file_path", "absolute_path")
            self.edited(path, changed([arguments], "content", "new_string"), at)
