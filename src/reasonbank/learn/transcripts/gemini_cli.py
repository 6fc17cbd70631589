"""Chats of Gemini CLI: ~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl.

Until 2026 they were one JSON document each, with the same messages in it. A message is told
anew when its calls are done; what hooks added is in <hook_context>.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from reasonbank.learn.echo import is_own, without_echo
from reasonbank.learn.session import Session
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
from reasonbank.learn.transcripts.reading import PENDING, Reader, changed, session_of
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_SHELL = {"run_shell_command", "shell"}
_EDITING = {"write_file", "replace", "edit"}
_NOT_SAID = ("<session_context>", "This is the Gemini CLI.")
_DIRECTORY = compile(r"Workspace Directories:\*{0,2}\s{1,20}-\s(/[^\n]+)")
_ENDS = compile(
    r"(?m)\n?^(?:Error: [^\n]*\n)?Exit Code: (-?\d{1,6}|\(none\))$"
    r"(?:\n(?:Signal|Background PIDs|Process Group PGID): [^\n]*)*\s*\z"
)
_BEGINS = compile(r"\A(?:Command: [^\n]*\n)?(?:Directory: [^\n]*\n)?(?:Output|Stdout): ")
_GROUP = compile(r"(?m)(?:^(?:Background PIDs|Process Group PGID): [^\n]*\n?)+\z")
_WRAPPED = ("<untrusted_context>\n", "\n</untrusted_context>")


def known_by(opening: Sequence[JSON]) -> bool:
    return any(
        ("sessionId" in line and "projectHash" in line)
        or (line.get("type") == "gemini" and "content" in line and "id" in line)
        for line in opening
    )


def read(lines: Iterable[str], *, id: str = "") -> Session:
    return session_of(Chat(), lines, id)


class Chat(Reader):
    agent = "gemini-cli"

    def __init__(self) -> None:
        super().__init__()
        self.project = ""
        """The hash of the directory, where only that is told."""
        self._places: OrderedDict[str, int] = OrderedDict()
        """Where messages begin, to which the user may go back."""

    def take(self, line: JSON) -> None:
        if "projectHash" in line:
            self.id = self.id or string(line.get("sessionId"))
            self.project = string(line.get("projectHash"))
            self.part = line.get("kind") not in (None, "main")
        # A document has all of them; ``$set`` has some when a chat begins or is compressed.
        for holder in (line, mapping(line.get("$set"))):
            for message in items(holder.get("messages")):
                self._message(message)
        back = string(line.get("$rewindTo"))
        if back in self._places:
            self.steps.forget_from(self._places[back])
        self._message(line)

    def _message(self, line: JSON) -> None:
        at = when(line.get("timestamp"))
        if id := string(line.get("id")):
            self._places.setdefault(id, self.steps.next)
        if len(self._places) > PENDING:
            self._places.popitem(last=False)
        match line.get("type"):
            case "user":
                self._asked(line)
            case "gemini":
                self.model = string(line.get("model")) or self.model
                if self.is_new(string(line.get("id"))):
                    self.tokens += whole(mapping(line.get("tokens")).get("total"))
                    self.say(text_of(line.get("content")), by_user=False, at=at)
                for call in items(line.get("toolCalls")):
                    self._called(call)

    def _asked(self, line: JSON) -> None:
        said = text_of(line.get("content"))
        if said.startswith(_NOT_SAID):
            found = _DIRECTORY.search(said[:20_000])
            self.directory = self.directory or (found[1].strip() if found else None)
        elif said and self.is_new(string(line.get("id"))):
            self.aborted = False
            self.say(said, by_user=True, at=when(line.get("timestamp")))

    def _called(self, call: JSON) -> None:
        name, arguments = string(call.get("name")), mapping(call.get("args"))
        status = call.get("status")
        if status not in ("success", "error", "cancelled") or is_own(tool=name):
            return
        if not self.is_new(string(call.get("id"))):
            return
        self.aborted = status == "cancelled"
        at = when(call.get("timestamp"))
        if name in _SHELL:
            output, exit_code = ended(response(call.get("result")), string(status))
            shown = call.get("resultDisplay")
            output = shown if isinstance(shown, str) and shown else output
            self.ran(string(arguments.get("command")), output, exit_code, at)
        elif name in _EDITING and status == "success":
            path = first(arguments, "file_path", "absolute_path", "path")
            self.edited(path, changed([arguments], "content", "new_string"), at)


def response(parts: Any) -> str:
    """What a tool answered."""
    for part in items(parts):
        told = mapping(mapping(part.get("functionResponse")).get("response"))
        if found := first(told, "output", "error", "content"):
            return found
    return ""


def ended(said: str, status: str) -> tuple[str, int | None]:
    """What a command printed, and its exit code, which newer versions tell unless it is 0."""
    said = without_echo(said).rstrip()
    said = said.removeprefix(_WRAPPED[0]).removesuffix(_WRAPPED[1])
    found = _ENDS.search(said)
    exit_code = {"success": 0, "error": 1}.get(status)
    if found is not None:
        told = found[1]
        exit_code = None if told.startswith("(") else code(int(told))
        said = said[: found.start()]
    if status == "cancelled":
        exit_code = None
    return _GROUP.sub("", _BEGINS.sub("", said)).strip(), exit_code
