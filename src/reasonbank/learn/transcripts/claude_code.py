"""Transcripts of Claude Code: ~/.claude/projects/<project>/<session>.jsonl.

Also what `claude -p --output-format stream-json` prints. What hooks added is in attachments,
what subagents did in files of their own, or on side chains: neither is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from reasonbank.learn.echo import is_own
from reasonbank.learn.session import Session
from reasonbank.learn.transcripts.lines import first, items, mapping, string, text_of, when, whole
from reasonbank.learn.transcripts.reading import PENDING, Reader, changed, session_of
from reasonbank.model import JSON
from reasonbank.safety.patterns import compile

_EDITING = {"Edit", "MultiEdit", "Write", "NotebookEdit"}
_EXIT_CODE = compile(r"\A(?:Error: )?(?:Command failed with )?[Ee]xit code:? (\d{1,3})\b\s*")
_USED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_INTERRUPTED = "[Request interrupted by user"
_DECLINED = ("The user doesn't want to", "User rejected", "[Request interrupted")
_NOT_SAID = ("<command-", "<local-command-", "<bash-", "Caveat: The messages below",
             "Stop hook feedback:", _INTERRUPTED)  # fmt: skip
_BESIDES = {"summary", "file-history-snapshot", "queue-operation", "attachment", "mode",
            "last-prompt", "atis-latch", "api-request-shape"}  # fmt: skip


def known_by(opening: Sequence[JSON]) -> bool:
    return any(
        ("sessionId" in line or "session_id" in line or "uuid" in line)
        and "content" in mapping(line.get("message"))
        and line.get("type") in ("user", "assistant")
        for line in opening
    ) or (bool(opening) and all(line.get("type") in _BESIDES for line in opening))


def read(lines: Iterable[str], *, id: str = "") -> Session:
    return session_of(Transcript(), lines, id)


class Transcript(Reader):
    agent = "claude-code"

    def __init__(self) -> None:
        super().__init__()
        self._used: OrderedDict[str, int] = OrderedDict()
        """By message: each of its lines says what all of it used."""

    def take(self, line: JSON) -> None:
        if line.get("isMeta") or line.get("isCompactSummary"):
            return
        kind = line.get("type")
        aside = line.get("isSidechain") or line.get("parent_tool_use_id")
        if kind not in ("user", "assistant") or aside:
            return
        self.id = self.id or first(line, "sessionId", "session_id")
        self.directory = self.directory or string(line.get("cwd")) or None
        message = mapping(line.get("message"))
        if kind == "assistant":
            self._answer(line, message)
        else:
            self._user(line, message)

    def _answer(self, line: JSON, message: JSON) -> None:
        if (name := string(message.get("model"))) and not name.startswith("<"):
            self.model = name
        used = mapping(message.get("usage"))
        self._use(
            first(message, "id") or first(line, "uuid"), sum(whole(used.get(n)) for n in _USED)
        )
        for block in items(message.get("content")):
            if block.get("type") == "tool_use":
                self.wait_for(string(block.get("id")), block)
        said = text_of(message.get("content"))
        if said and self.is_new(string(line.get("uuid"))):
            self.say(said, by_user=False, at=when(line.get("timestamp")))

    def _use(self, message: str, tokens: int) -> None:
        self.tokens += tokens - self._used.get(message, 0)
        self._used[message] = tokens
        if len(self._used) > PENDING:
            self._used.popitem(last=False)

    def _user(self, line: JSON, message: JSON) -> None:
        content = message.get("content")
        for block in items(content):
            if block.get("type") == "tool_result":
                self._result(line, block)
        said = text_of(content)
        self.aborted = said.startswith(_INTERRUPTED) or (self.aborted and not said)
        if said and not said.startswith(_NOT_SAID) and self.is_new(string(line.get("uuid"))):
            self.say(said, by_user=True, at=when(line.get("timestamp")))

    def _result(self, line: JSON, block: JSON) -> None:
        id = string(block.get("tool_use_id"))
        call = mapping(self.call(id))
        name, input = string(call.get("name")), mapping(call.get("input"))
        wrong = block.get("is_error") is True
        at = when(line.get("timestamp"))
        if is_own(tool=name) or not self.is_new(id):
            return
        if name in _EDITING and not wrong:
            parts = [input, *items(input.get("edits"))]
            change = changed(parts, "new_string", "content", "new_source")
            self.edited(first(input, "file_path", "notebook_path"), change, at)
        elif name == "Bash":
            told = line.get("toolUseResult", line.get("tool_use_result"))
            output, exit_code = _ended(told, block, wrong)
            self.ran(string(input.get("command")), output, exit_code, at)


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
