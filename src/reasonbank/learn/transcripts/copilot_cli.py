"""Events of Copilot CLI: ~/.copilot/session-state/<session>/events.jsonl.

What hooks added is in ``transformedContent``, and at the end of what a tool answered to the
model; beside both stands what was really said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from reasonbank.learn.echo import is_own
from reasonbank.learn.session import Session
from reasonbank.learn.transcripts.lines import code, first, items, mapping, string, when, whole
from reasonbank.learn.transcripts.reading import Reader, changed, session_of
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_SHELL = {"bash", "shell", "powershell"}
_EDITING = {"create", "edit", "str_replace", "str_replace_editor", "write", "insert"}
_ENDS = compile(r"\s?<(?:shellId: \S{1,40} completed|exited|command completed) with exit code"
                r" (-?\d{1,6})>\s*\z")  # fmt: skip
_GUIDANCE = "succeeded. Additional guidance from postToolUse hooks:"


def known_by(opening: Sequence[JSON]) -> bool:
    kinds = ("session.", "user.", "assistant.", "tool.", "hook.", "system.")
    return any(
        string(line.get("type")).startswith(kinds) and isinstance(line.get("data"), dict)
        for line in opening
    )


def read(lines: Iterable[str], *, id: str = "") -> Session:
    return session_of(Events(), lines, id)


class Events(Reader):
    agent = "copilot-cli"

    def __init__(self) -> None:
        super().__init__()
        self._asked = ""
        """What a hook made it ask itself, which comes next as if the user had said it."""

    def take(self, line: JSON) -> None:
        data, at = mapping(line.get("data")), when(line.get("timestamp"))
        if data.get("parentToolCallId") or not self.is_new(string(line.get("id"))):
            return  # The first is what a subagent did.
        match line.get("type"):
            case "session.start" | "session.resume":
                self.id = self.id or string(data.get("sessionId"))
                self.model = string(data.get("selectedModel")) or self.model
                here = string(mapping(data.get("context")).get("cwd"))
                self.directory = self.directory or here or None
            case "user.message":
                self.aborted = False
                said = string(data.get("content"))
                if said != self._asked and string(data.get("source")) in ("", "user"):
                    self.say(said, by_user=True, at=at)
            case "hook.end":
                output = mapping(data.get("output"))
                if output.get("decision") == "block":
                    self._asked = string(output.get("reason"))
            case "assistant.message":
                self.model = string(data.get("model")) or self.model
                self.say(string(data.get("content")), by_user=False, at=at)
                for call in items(data.get("toolRequests")):
                    self.wait_for(string(call.get("toolCallId")), call)
            case "tool.execution_start":
                self.wait_for(string(data.get("toolCallId")), data)
            case "tool.execution_complete":
                self._done(data, at)
            case "session.usage_record":
                used = mapping(data.get("usage"))
                self.tokens += whole(used.get("inputTokens")) + whole(used.get("outputTokens"))
            case "abort":
                self.aborted = True

    def _done(self, data: JSON, at: datetime | None) -> None:
        call = mapping(self.call(string(data.get("toolCallId"))))
        name = first(call, "toolName", "name")
        arguments = mapping(call.get("arguments"))
        if is_own(tool=name) or is_own(tool=string(call.get("mcpServerName"))):
            return
        succeeded = data.get("success") is not False
        if name in _SHELL:
            output, exit_code = _ended(data, succeeded)
            self.ran(string(arguments.get("command")), output, exit_code, at)
        elif succeeded and (name in _EDITING or items(data.get("fileEdits"))):
            path = first(arguments, "path", "file_path")
            if not path:
                path = next((string(e.get("path")) for e in items(data.get("fileEdits"))), "")
            self.edited(path, changed([arguments], "file_text", "new_str", "content"), at)


def _ended(data: JSON, succeeded: bool) -> tuple[str, int | None]:
    """What a command printed, and its exit code; None where it was not let run, or runs on."""
    result = mapping(data.get("result"))
    printed = first(result, "detailedContent", "content")
    printed = printed.partition(f'\n\nTool "bash" {_GUIDANCE}')[0].rstrip()
    told = code(mapping(data.get("shellExecution")).get("exitCode"))
    found = _ENDS.search(printed)
    if found is not None:
        printed = printed[: found.start()]
        told = int(found[1]) if told is None else told
    if not succeeded and told is None:
        error = mapping(data.get("error"))
        declined = error.get("code") in ("denied", "rejected")
        return string(error.get("message")) or printed, None if declined else 1
    return printed, told
