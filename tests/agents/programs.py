"""The real agents, pinned, and how each is run without an account against a model of our own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(os.environ.get("REASONBANK_AGENTS", Path(__file__).parents[2] / ".cache/agents"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """``files`` are written below the home; ``arguments`` take the prompt last. ``free`` lets every
    tool run: without it, those that need nobody's leave, and what `reasonbank install` allowed."""

    name: str
    package: str
    version: str
    binary: str
    arguments: Sequence[str]
    free: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Callable[[str], Mapping[str, str]] = lambda url: {}
    trust: str = ""
    """The file below the home that says whose projects are trusted: then their settings count."""
    first: bool = False
    """Run by `make check`; the others by `make agents-all`."""

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.name}-{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / "node_modules/.bin" / self.binary

    def command(self, prompt: str, *, free: bool = True) -> list[str]:
        first, *more = self.arguments
        return [str(self.path), first, *(self.free if free else ()), *more, prompt]


CODEX = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def quiet(kind: str) -> dict[str, object]:
    return {
        "security": {"auth": {"selectedType": kind}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }


def opencode(url: str) -> dict[str, str]:
    model = {"name": "scripted", "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "test-key"},
        "models": {"scripted": model},
    }
    config = {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"scripted": provider},
    }
    # With a plugin it waits for its own package, from a registry that is out of reach here.
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1"}}}}
    return {
        ".config/opencode/opencode.json": json.dumps(config, indent=2),
        ".config/opencode/package-lock.json": json.dumps(lock),
        ".config/opencode/node_modules/.keep": "",
    }


PROGRAMS = (
    Program(
        name="claude-code",
        package="@anthropic-ai/claude-code",
        version="2.1.325",
        binary="claude",
        arguments=("--verbose", "--output-format", "stream-json", "-p"),
        # Root may skip permissions only in a sandbox.
        free=("--dangerously-skip-permissions",),
        env={
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "test-key",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        },
        first=True,
    ),
    Program(
        name="codex",
        package="@openai/codex",
        version="0.166.0",
        binary="codex",
        arguments=("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
        free=("--dangerously-bypass-approvals-and-sandbox",),
        env={"OPENAI_API_KEY": "test-key"},
        files=lambda url: {".codex/config.toml": CODEX.format(url=url)},
        first=True,
    ),
    Program(
        name="gemini-cli",
        package="@google/gemini-cli",
        version="0.61.0",
        binary="gemini",
        # Without --model another model is asked first which one to take.
        arguments=("--model=gemini-2.5-flash", "--output-format", "stream-json", "-p"),
        free=("--yolo",),
        env={
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_API_KEY": "test-key",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        files=lambda url: {".gemini/settings.json": json.dumps(quiet("gemini-api-key"), indent=2)},
        first=True,
    ),
    Program(
        name="qwen-code",
        package="@qwen-code/qwen-code",
        version="0.24.4",
        binary="qwen",
        arguments=("--auth-type=openai", "--output-format", "stream-json", "-p"),
        free=("--yolo",),
        env={
            "OPENAI_BASE_URL": "{url}/v1",
            "OPENAI_API_KEY": "test-key",
            "OPENAI_MODEL": "scripted",
            "QWEN_TELEMETRY_ENABLED": "false",
        },
        files=lambda url: {".qwen/settings.json": json.dumps(quiet("openai"), indent=2)},
    ),
    Program(
        name="copilot-cli",
        package="@github/copilot",
        version="1.0.102",
        binary="copilot",
        arguments=("--output-format=json", "-p"),
        free=("--allow-all-tools", "--allow-all-paths"),
        trust=".copilot/config.json",
        env={
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "test-key",
            "COPILOT_MODEL": "scripted",
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "200000",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "8000",
        },
    ),
    Program(
        name="opencode",
        package="opencode-ai",
        version="1.18.33",
        binary="opencode",
        arguments=("run", "--format", "json", "-m", "scripted/scripted"),
        env={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        files=opencode,
    ),
)
