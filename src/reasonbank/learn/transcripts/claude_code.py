"""Transcripts of Claude Code: ~/.claude/projects/<project>/<session>.jsonl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reasonbank.learn.session import Command, Edit, Entry, Session, Turn, is_own, numbered, told
from reasonbank.learn.transcripts import facts, items, mapping, objects, string, text_of, whole
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_EDITING = {"Edit", "MultiEdit", "Write", "NotebookEdit"}
_EXIT_CODE = compile(r"\A(?:Error: )?(?:Command failed with )?[Ee]xit code:? (\d{1,3})\b\s*")
_USED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_INTERRUPTED = "[Request interrupted by user"
_DECLINED = ("The user doesn't want to", "User rejected", "[Request interrupted")
_NOT_SAID = ("<command-", "<local-command-", "<bash-", "Caveat: The messages below", _INTERRUPTED)


def known_by(first: str, text: str) -> bool:
    return '"sessionId"' in text or '"type"' in first


def read(lines: Iterable[str], *, id: str = "") -> Session:
    """``id`` names the session where the transcript does not."""
    reader = _Reader()
    for line in objects(lines):
        reader.take(line)
    return Session(
        id=reader.id or id or "unknown",
        agent="claude-code",
        entries=numbered(reader.entries.values()),
        directory=reader.directory,
        aborted=reader.aborted,
        facts=facts(reader.model, sum(reader.tokens.values())),
    )


class _Reader:
    def __init__(self) -> None:
        self.id = ""
        self.directory: str | None = None
        self.aborted = False
        self.entries: dict[str, Entry] = {}
        """By the id of the tool's call, or of the line: a resumed session repeats lines."""
        self.calls: dict[str, JSON] = {}
        self.model = ""
        self.tokens: dict[str, int] = {}
        """By message: each of its lines says what all of it used."""

    def take(self, line: JSON) -> None:
        if line.get("isSidechain") or line.get("isMeta") or line.get("isCompactSummary"):
            return
        kind = line.get("type")
        if kind not in ("user", "assistant"):
            return
        self.id = self.id or string(line.get("sessionId"))
        self.directory = self.directory or string(line.get("cwd")) or None
        message = mapping(line.get("message"))
        key = string(line.get("uuid")) or f"line {len(self.entries)}"
        if kind == "assistant":
            self._answer(key, message)
        else:
            self._user(key, line, message)

    def _answer(self, key: str, message: JSON) -> None:
        if (name := string(message.get("model"))) and not name.startswith("<"):
            self.model = name
        used = mapping(message.get("usage"))
        self.tokens[string(message.get("id")) or key] = sum(whole(used.get(n)) for n in _USED)
        for block in items(message.get("content")):
            if block.get("type") == "tool_use":
                self.calls[string(block.get("id"))] = block
        self._say(key, text_of(message.get("content")), by_user=False)

    def _user(self, key: str, line: JSON, message: JSON) -> None:
        content = message.get("content")
        for block in items(content):
            if block.get("type") == "tool_result":
                self._result(line, block)
        said = text_of(content)
        self.aborted = said.startswith(_INTERRUPTED) or (self.aborted and not said)
        if not said.startswith(_NOT_SAID):
            self._say(key, said, by_user=True)

    def _say(self, key: str, said: str, *, by_user: bool) -> None:
        if text := told(said).strip():
            self.entries[key] = Turn(number=0, by_user=by_user, text=text)

    def _result(self, line: JSON, block: JSON) -> None:
        id = string(block.get("tool_use_id"))
        call = self.calls.get(id, {}) if id else {}
        name, input = string(call.get("name")), mapping(call.get("input"))
        wrong = block.get("is_error") is True
        if is_own(tool=name):
            return
        if name in _EDITING and not wrong:
            self._edit(id, input)
        elif name == "Bash":
            output, exit_code = _ended(line.get("toolUseResult"), block, wrong)
            command = string(input.get("command"))
            if command and not is_own(command=command):
                self.entries[id] = Command(
                    number=0, command=told(command), output=told(output), exit_code=exit_code
                )

    def _edit(self, id: str, input: JSON) -> None:
        path = string(input.get("file_path")) or string(input.get("notebook_path"))
        parts = [input, *items(input.get("edits"))]
        change = "\n".join(
            string(part.get(name))
            for part in parts
            for name in ("new_string", "content", "new_source")
            if part.get(name)
        )
        if path:
            self.entries[id] = Edit(number=0, path=told(path), change=told(change))


def _ended(result: Any, block: JSON, wrong: bool) -> tuple[str, int | None]:
    """What a command printed, and its exit code; None where the user stopped it."""
    said = text_of(block.get("content"))
    printed = mapping(result)
    if said.startswith(_DECLINED) or printed.get("interrupted") is True:
        return said, None
    if printed and not wrong:
        parts = (string(printed.get("stdout")), string(printed.get("stderr")))
        if printed.get("backgroundTaskId"):
            return said, None
        return "\n".join(filter(None, parts)) or said, 0
    if not wrong:
        return said, 0
    found = _EXIT_CODE.match(said)
    return (said[found.end() :], int(found[1])) if found else (said, 1)
