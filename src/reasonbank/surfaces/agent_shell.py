"""Whether a command was typed by a person, or run by an agent in a shell of its own.

Agents say so in the environment of what they run; where one does not, its name is among the
processes above ours. An agent that hides both is taken for the person whose account it has: it
could write into the bank's file as well.
"""

from __future__ import annotations

import os
import re

MARKS = (
    "AI_AGENT", "CLAUDECODE", "CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX", "GEMINI_CLI",
    "QWEN_CODE", "CURSOR_AGENT", "COPILOT_AGENT", "OPENCODE", "CLINE_ACTIVE", "CLAUDE_CODE",
    "CODEX_SANDBOX_NETWORK_DISABLED", "OPENCODE_CLIENT", "AUGMENT_AGENT", "ANTIGRAVITY_AGENT",
    "GOOSE_TERMINAL", "AMP_CURRENT_THREAD_ID", "ROO_ACTIVE",
)  # fmt: skip
"""What agents set for the programs that they run."""
NAMES = ("claude", "codex", "gemini", "qwen", "cursor-agent", "copilot", "opencode", "aider",
         "goose", "amp", "crush")  # fmt: skip
"""What their programs are called, and what ``AGENT`` may say; others set it to something else."""
_AGENTS = re.compile(
    rf"(?:^|/)(?:{'|'.join(NAMES)})"
    r"(?:\.(?:exe|js|mjs|cjs))?$"
)
_PACKAGES = re.compile(
    r"/(?:@anthropic-ai/claude-code|@openai/codex|@google/gemini-cli|@qwen-code/qwen-code"
    r"|@github/copilot|opencode-ai)/"
)
_INTERPRETERS = ("node", "bun", "deno", "python")
DEEPEST = 32
"""So many processes above ours are looked at."""


def agent_above() -> bool:
    named = os.environ.get("AGENT", "").lower() in NAMES
    return named or any(os.environ.get(mark) for mark in MARKS) or _is_run_by_one()


def _is_run_by_one() -> bool:
    process = os.getppid()
    for _ in range(DEEPEST):
        if process <= 1:
            return False
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read(4096).decode("utf-8", "replace").split("\0")
            with open(f"/proc/{process}/stat", "rb") as file:
                # The name in brackets may hold anything, brackets too.
                process = int(file.read(4096).rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False  # Not Linux, or it has just ended.
        if any(_AGENTS.search(word) or _PACKAGES.search(word) for word in _run(words)):
            return True
    return False


def _run(words: list[str]) -> list[str]:
    """The program, and the script or module that an interpreter runs, whatever its options."""
    if words[0].rpartition("/")[2].rstrip("0123456789.") in _INTERPRETERS:
        return [words[0], *[word for word in words[1:] if not word.startswith("-")][:1]]
    return words[:2]
