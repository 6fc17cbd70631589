"""Each agent's own words: what it tells a hook, and what a hook answers so that its model reads it.

    read(agent, event, payload)   the agent's JSON, as `Told`
    context(told, text)           what to print so that the model reads text
    question(told, text)          what to print at the end of a turn so that the agent goes on
    permission(told)              what to print so that a tool of ours runs with nobody to ask

Seen with the real programs (the versions are in tests/agents/programs.py):

    agent         prompt  before-tool  after-tool  asked at the end of a turn
    claude-code   yes     yes          yes         yes
    codex         yes     yes          yes         yes
    gemini-cli    yes     no           yes         yes
    qwen-code     yes     no           yes         yes
    copilot-cli   yes     yes          yes         yes
    opencode      yes     yes          yes         no
    cursor        no      no           yes         yes     (from its documents)

No agent lets a model read a warning before the call it is about, save by refusing that call:
"before-tool" reaches it together with the call's result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reasonbank.surfaces.agents import AGENTS, Event
from reasonbank.surfaces.hooks import tool
from reasonbank.surfaces.hooks.told import Told

ALL = frozenset({Event.PROMPT, Event.BEFORE_TOOL, Event.AFTER_TOOL})
READ = {
    "claude-code": ALL,
    "codex": ALL,
    "gemini-cli": frozenset({Event.PROMPT, Event.AFTER_TOOL}),
    "qwen-code": frozenset({Event.PROMPT, Event.AFTER_TOOL}),
    "copilot-cli": ALL,
    "opencode": ALL,
    "cursor": frozenset({Event.AFTER_TOOL}),
}
"""At which events the model reads what a hook answers."""

PERMITTED = tuple(f"reasonbank-memory_{verb}" for verb in ("search", "record", "outcome"))
"""As Copilot CLI names them. Never a command that runs us: anything might stand beside it."""

AFTER = ("PostToolUse", "PostToolUseFailure")
"""Two moments that are one event here: an agent tells failures apart by them."""


def read(agent: str, event: Event, payload: Mapping[str, Any]) -> Told:
    """Whatever is missing or of another type is "" or None: a hook never fails for it."""
    name = _name(agent, event, payload)
    about = tool.read(name, event, payload)
    return Told(
        agent=agent,
        event=event,
        name=name,
        session=tool.text(payload, "session_id", "sessionId", "conversation_id"),
        directory=tool.text(payload, "cwd") or _first(payload.get("workspace_roots")),
        transcript=tool.text(payload, "transcript_path", "transcriptPath"),
        prompt=_without_hooks(tool.text(payload, "prompt")),
        tool=about.name,
        command=about.command,
        path=about.path,
        output=about.output,
        failed=about.failed,
        own=about.own,
        stopping=_stopping(payload),
    )


def context(told: Told, text: str) -> str:
    """Empty where the model would not read it: then nothing may be printed."""
    if not text.strip() or told.event not in READ.get(told.agent, ()):
        return ""
    match told.agent:
        case "opencode":  # Our own plugin reads it.
            return text
        case "copilot-cli":
            return json.dumps({"additionalContext": text})
        case "cursor":
            return json.dumps({"additional_context": text})
    return json.dumps(
        {"hookSpecificOutput": {"hookEventName": told.name, "additionalContext": text}}
    )


def question(told: Told, text: str) -> str:
    """Makes the agent go on with text as if the user had said it; "" where it cannot be asked.

    Never twice in a row: an agent that is asked whenever it stops never stops.
    """
    if not text.strip() or told.event is not Event.TURN_END or told.stopping:
        return ""
    match told.agent:
        case "opencode":  # `opencode run` ends as soon as it is idle.
            return ""
        case "cursor":
            return json.dumps({"followup_message": text})
    return json.dumps({"decision": "block", "reason": text}) if told.agent in READ else ""


def permission(told: Told) -> str:
    """Copilot CLI keeps permissions by project; a hook that `install` wired gives its leave to the
    three tools that `install` wired, in whichever project. All others keep theirs in a file."""
    if told.agent != "copilot-cli" or told.event is not Event.BEFORE_TOOL:
        return ""
    return json.dumps({"permissionDecision": "allow"}) if told.tool in PERMITTED else ""


def _name(agent: str, event: Event, payload: Mapping[str, Any]) -> str:
    ours = next((each.events for each in AGENTS if each.name == agent), {})
    said = tool.text(payload, "hook_event_name")
    if ours.get(said) is event or (event is Event.AFTER_TOOL and said in AFTER):
        return said
    return next((name for name, meant in ours.items() if meant is event), "")


def _without_hooks(prompt: str) -> str:
    """Gemini puts what other hooks said before the prompt."""
    opening, closing = "<hook_context>", "</hook_context>"
    while prompt.startswith(opening) and (end := prompt.find(closing)) >= 0:
        prompt = prompt[end + len(closing) :].lstrip()
    return prompt


def _stopping(payload: Mapping[str, Any]) -> bool:
    again = payload.get("loop_count")  # Cursor's
    return payload.get("stop_hook_active") is True or (isinstance(again, int) and again > 0)


def _first(value: object) -> str:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else ""
