"""The coding agents that can be connected, and the moments at which each of them calls a hook."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from reasonbank.values import valueclass


class Event(StrEnum):
    """A moment of a session, in our words; each agent has its own."""

    PROMPT = "prompt"
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    TURN_END = "turn-end"
    BEFORE_COMPACTION = "before-compaction"
    SESSION_END = "session-end"


@valueclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """``events`` are those that are wired, by the agent's own names."""

    name: str
    title: str
    events: Mapping[str, Event]
    tested: bool = True
    """Against the real program."""


AGENTS = (
    Agent(
        name="claude-code",
        title="Claude Code",
        events={
            "UserPromptSubmit": Event.PROMPT,
            "PreToolUse": Event.BEFORE_TOOL,
            "PostToolUseFailure": Event.AFTER_TOOL,
            "Stop": Event.TURN_END,
            "PreCompact": Event.BEFORE_COMPACTION,
            "SessionEnd": Event.SESSION_END,
        },
    ),
    Agent(
        name="codex",
        title="Codex",
        # It runs a hook only after its user has trusted it, once, in `/hooks`.
        events={
            "UserPromptSubmit": Event.PROMPT,
            "PreToolUse": Event.BEFORE_TOOL,
            "PostToolUse": Event.AFTER_TOOL,
            "Stop": Event.TURN_END,
            "PreCompact": Event.BEFORE_COMPACTION,
            "SessionEnd": Event.SESSION_END,
        },
    ),
    Agent(
        name="gemini-cli",
        title="Gemini CLI",
        # Not PreCompress: it fires before every call of the model, compaction or not.
        # Not BeforeTool: the model reads nothing of its answer, save a refusal.
        events={
            "BeforeAgent": Event.PROMPT,
            "AfterTool": Event.AFTER_TOOL,
            "AfterAgent": Event.TURN_END,
            "SessionEnd": Event.SESSION_END,
        },
    ),
    Agent(
        name="qwen-code",
        title="Qwen Code",
        # Not PreToolUse: the model reads nothing of its answer, save a refusal. UserPromptSubmit
        # comes again, with an empty prompt, after every call of a tool.
        events={
            "UserPromptSubmit": Event.PROMPT,
            "PostToolUseFailure": Event.AFTER_TOOL,
            "Stop": Event.TURN_END,
            "PreCompact": Event.BEFORE_COMPACTION,
            "SessionEnd": Event.SESSION_END,
        },
    ),
    Agent(
        name="copilot-cli",
        title="Copilot CLI",
        events={
            "userPromptSubmitted": Event.PROMPT,
            "preToolUse": Event.BEFORE_TOOL,
            "postToolUse": Event.AFTER_TOOL,
            "agentStop": Event.TURN_END,
            "sessionEnd": Event.SESSION_END,
        },
    ),
    # It has no hooks that run commands: a plugin of a few lines calls ours.
    Agent(
        name="opencode",
        title="opencode",
        events={
            "chat.message": Event.PROMPT,
            "tool.execute.before": Event.BEFORE_TOOL,
            "tool.execute.after": Event.AFTER_TOOL,
            "session.idle": Event.TURN_END,
            "experimental.session.compacting": Event.BEFORE_COMPACTION,
        },
    ),
    Agent(
        name="cursor",
        title="Cursor",
        # By its documents the model reads only what is said after a tool.
        events={
            "postToolUse": Event.AFTER_TOOL,
            "stop": Event.TURN_END,
            "preCompact": Event.BEFORE_COMPACTION,
        },
        tested=False,
    ),
)
