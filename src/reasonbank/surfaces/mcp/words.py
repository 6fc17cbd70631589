"""Errors in the words of an agent.

Below the surfaces, an error names the operation that helps in one form: a command of the shell,
`reasonbank gaps`, in backquotes. A shell shows it as it stands; an agent is told the tool that
does the same, or that the command is for its user to run.
"""

from __future__ import annotations

import re

from reasonbank.safety.patterns import compile

TOOL_FOR = {
    "capture": "capture_knowledge",
    "consolidate": "memory_consolidate",
    "distil": "distil",
    "doctor": "health_check",
    "feedback": "memory_feedback",
    "forget": "memory_forget",
    "gaps": "memory_gaps",
    "genealogy": "get_memory_genealogy",
    "history": "memory_history",
    "list": "memory_search",
    "outcome": "memory_outcome",
    "recommend": "memory_recommend",
    "record": "memory_record",
    "search": "memory_search",
    "show": "memory_get",
    "solve": "solve_coding_task",
    "stats": "get_statistics",
    "ticket prepare": "distil_prepare",
    "ticket submit": "distil_submit",
    "update": "memory_update",
    "workspace": "workspace",
}
_COMMAND = compile(
    r"`reasonbank ((?P<first>[a-z]{1,30})(?: (?P<second>[a-z]{1,30}))?[^`\n]{0,200})`"
)


def for_agents(message: str) -> str:
    return _COMMAND.sub(_told, message)


def _told(command: re.Match[str]) -> str:
    first, second = command["first"], command["second"] or ""
    tool = TOOL_FOR.get(f"{first} {second}") or TOOL_FOR.get(first)
    if tool is None:
        return f"{command[0]} (for your user to run)"
    return f"`{tool}` with action={second}" if tool == "workspace" and second else f"`{tool}`"
