"""What is written for each agent, and where: the one table behind `install`, the plugin, the
extension and the page that tells it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from reasonbank.surfaces.agents import AGENTS, Agent, Event

NAME = "reasonbank"
SERVES = ("mcp", "--tools", "core")
SECONDS = 3
"""A hook ends by itself after 1.5 s; this is for the day on which it does not even start."""
TOKEN = "REASONBANK_TOKEN"  # nosec B105  # a name
HEADER = "X-ReasonBank-Workspace"
_HOOK = re.compile(
    r"\breasonbank\S{0,200}[\"']? hook [a-z-]{1,40} --agent [a-z-]{1,40}(?: --bank .{1,600})?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """``launcher`` starts ReasonBank; ``bank`` and ``url`` are said where they are not the usual.

    ``project`` is the folder to connect, None for all of a user's.
    """

    launcher: tuple[str, ...] = (NAME,)
    bank: str | None = None
    project: Path | None = None
    url: str | None = None

    @property
    def server(self) -> tuple[str, ...]:
        return (*self.launcher, *SERVES, *self._named)

    def hook(self, agent: Agent, event: Event) -> str:
        words = (*self.launcher, "hook", event, "--agent", agent.name, *self._named)
        return shlex.join(words)

    @property
    def _named(self) -> tuple[str, ...]:
        return ("--bank", self.bank) if self.bank else ()


@dataclass(frozen=True, slots=True)
class Entry:
    """``value`` at ``path``; or, if it is ``listed``, in the list at ``path``."""

    path: tuple[str, ...]
    value: Any
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A file with our ``entries`` in it, or one that is wholly ours, with ``text``."""

    file: Path
    form: str = "json"
    entries: tuple[Entry, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plug:
    """How one agent is connected.

    ``home``: its folder, by an environment variable or else below the user's; ``programs`` are
    what it is called. ``advice`` is what only the user can do.
    """

    home: Callable[[Mapping[str, str]], Path]
    programs: tuple[str, ...]
    targets: Callable[[Plug, Wish, Path], tuple[Target, ...]]
    advice: tuple[str, ...] = ()
    matcher: str = ""
    timeout: dict[str, int] = field(default_factory=lambda: {"timeout": SECONDS})

    def folder(self, wish: Wish, environment: Mapping[str, str]) -> Path:
        return wish.project or self.home(environment)


def _user(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or Path.home())


def _home(variable: str, below: str) -> Callable[[Mapping[str, str]], Path]:
    def found(environment: Mapping[str, str]) -> Path:
        named = environment.get(variable)
        return Path(named) if named else _user(environment) / below

    return found


def _opencode_home(environment: Mapping[str, str]) -> Path:
    if named := environment.get("OPENCODE_CONFIG_DIR"):
        return Path(named)
    named = environment.get("XDG_CONFIG_HOME")
    return (Path(named) if named else _user(environment) / ".config") / "opencode"


def _gemini_home(environment: Mapping[str, str]) -> Path:
    named = environment.get("GEMINI_CLI_HOME")
    return (Path(named) if named else _user(environment)) / ".gemini"


def agent_named(name: str) -> Agent:
    return next(agent for agent in AGENTS if agent.name == name)


def is_hook(command: object) -> bool:
    """Whether a command line is one of ours."""
    return isinstance(command, str) and _HOOK.search(command) is not None


def stdio(wish: Wish, **more: Any) -> dict[str, Any]:
    command, *arguments = wish.server
    return {"command": command, "args": arguments, **more}


def _remote(wish: Wish, variable: str, name: str = "url", **more: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {variable}", HEADER: str(wish.project)}
    return {name: wish.url, "headers": headers, **more}


def hook_groups(agent: str, wish: Wish) -> dict[str, list[dict[str, Any]]]:
    """Claude Code's shape, which Codex, Gemini and Qwen have taken over."""
    found = {}
    plug = PLUGS[agent]
    for name, event in agent_named(agent).events.items():
        hook = {"type": "command", "command": wish.hook(agent_named(agent), event), **plug.timeout}
        on_tools = event in (Event.BEFORE_TOOL, Event.AFTER_TOOL)
        found[name] = [{**({"matcher": plug.matcher} if on_tools else {}), "hooks": [hook]}]
    return found


def _listed(hooks: Mapping[str, list[dict[str, Any]]]) -> tuple[Entry, ...]:
    return tuple(
        Entry(("hooks", name), value, listed=True)
        for name, values in hooks.items()
        for value in values
    )


def claude_server(wish: Wish) -> dict[str, Any]:
    # Else its tools hide behind a search, in which no model looks for what it does not know of.
    if wish.url:
        return _remote(wish, f"${{{TOKEN}}}", type="http", alwaysLoad=True)
    return stdio(wish, alwaysLoad=True)


def _claude(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    server = Entry(("mcpServers", NAME), claude_server(wish))
    allowed = Entry(("permissions", "allow"), f"mcp__{NAME}", listed=True)
    if wish.project:
        servers, settings = folder / ".mcp.json", folder / ".claude" / "settings.json"
    elif folder == folder.parent / ".claude":
        servers, settings = folder.parent / ".claude.json", folder / "settings.json"
    else:
        servers, settings = folder / ".claude.json", folder / "settings.json"
    hooks = _listed(hook_groups("claude-code", wish))
    return (
        Target(file=servers, entries=(server,)),
        Target(file=settings, entries=(allowed, *hooks)),
    )


def _codex(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    more: dict[str, Any] = {
        # So that it need not ask before each call, nor guess where nobody can be asked.
        "default_tools_approval_mode": "approve",
        # The tools are then in the first request, rather than behind a search for them.
        "omit_tools_from": ["deferred"],
    }
    server = {
        "url": wish.url, "bearer_token_env_var": TOKEN,
        "http_headers": {HEADER: str(wish.project)}, **more,
    } if wish.url else stdio(wish, **more)  # fmt: skip
    folder = folder / ".codex" if wish.project else folder
    return (
        Target(file=folder / "config.toml", form="toml",
               entries=(Entry(("mcp_servers", NAME), server),)),
        Target(file=folder / "hooks.json", entries=_listed(hook_groups("codex", wish))),
    )  # fmt: skip


def gemini_server(wish: Wish) -> dict[str, Any]:
    # Without trust, headless runs are not even offered the tools.
    if wish.url:
        return _remote(wish, f"${TOKEN}", "httpUrl", trust=True)
    return stdio(wish, trust=True)


def _gemini(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    return _in_settings("gemini-cli", wish, folder / ".gemini" if wish.project else folder)


def _qwen(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    return _in_settings("qwen-code", wish, folder / ".qwen" if wish.project else folder)


def _in_settings(agent: str, wish: Wish, folder: Path) -> tuple[Target, ...]:
    server = gemini_server(wish)
    if agent == "qwen-code":
        server["alwaysLoadTools"] = True
    hooks = _listed(hook_groups(agent, wish))
    entries = (Entry(("mcpServers", NAME), server), *hooks)
    return (Target(file=folder / "settings.json", entries=entries),)


def _copilot(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    server = _remote(wish, f"${{{TOKEN}}}", type="http", tools=["*"]) if wish.url \
        else {"type": "local", **stdio(wish), "tools": ["*"]}  # fmt: skip
    agent = agent_named("copilot-cli")
    hooks: dict[str, Any] = {}
    for name, event in agent.events.items():
        on_tools = event in (Event.BEFORE_TOOL, Event.AFTER_TOOL)
        matcher = {"matcher": plug.matcher} if on_tools else {}
        hook = {"type": "command", "bash": wish.hook(agent, event), **matcher, **plug.timeout}
        hooks[name] = [hook]
    text = json.dumps({"version": 1, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n"
    folder = folder / ".github" if wish.project else folder
    servers = folder / ("mcp.json" if wish.project else "mcp-config.json")
    return (
        Target(file=servers, entries=(Entry(("mcpServers", NAME), server),)),
        Target(file=folder / "hooks" / f"{NAME}.json", form="whole", text=text),
    )


def _opencode(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    server: dict[str, Any] = {"type": "local", "command": list(wish.server), "enabled": True}
    if wish.url:
        server = _remote(wish, f"{{env:{TOKEN}}}", type="remote", enabled=True)
    names = ("opencode.jsonc", "opencode.json")
    there = [folder / name for name in names if (folder / name).exists()]
    entry = Entry(("mcp", NAME), server)
    plugin = package_files(__package__).joinpath("opencode_plugin.js").read_text()
    launcher = [*wish.launcher, *(() if not wish.bank else ("--bank", wish.bank))]
    text = plugin.replace('["reasonbank"]', json.dumps(launcher))
    below = folder / ".opencode" if wish.project else folder
    return (
        Target(file=there[0] if there else folder / "opencode.json", entries=(entry,)),
        Target(file=below / "plugins" / f"{NAME}.js", form="whole", text=text),
    )


def _cursor(plug: Plug, wish: Wish, folder: Path) -> tuple[Target, ...]:
    server = _remote(wish, f"${{env:{TOKEN}}}") if wish.url else stdio(wish)
    folder = folder / ".cursor" if wish.project else folder
    agent = agent_named("cursor")
    entries = [Entry(("version",), 1)]
    for name, event in agent.events.items():
        on_tools = event in (Event.BEFORE_TOOL, Event.AFTER_TOOL)
        hook = {"command": wish.hook(agent, event), **plug.timeout,
                **({"matcher": plug.matcher} if on_tools else {})}  # fmt: skip
        entries.append(Entry(("hooks", name), hook, listed=True))
    return (
        Target(file=folder / "mcp.json", entries=(Entry(("mcpServers", NAME), server),)),
        Target(file=folder / "hooks.json", entries=tuple(entries)),
    )


PLUGS: dict[str, Plug] = {
    "claude-code": Plug(
        home=_home("CLAUDE_CONFIG_DIR", ".claude"),
        programs=("claude",),
        targets=_claude,
        matcher="Bash|Edit|Write|MultiEdit|NotebookEdit",
    ),
    "codex": Plug(
        home=_home("CODEX_HOME", ".codex"),
        programs=("codex",),
        targets=_codex,
        matcher="Bash|apply_patch",
        advice=("Codex runs hooks only once you trust them: start codex and look at /hooks.",),
    ),
    "gemini-cli": Plug(
        home=_gemini_home,
        programs=("gemini",),
        targets=_gemini,
        matcher="run_shell_command|write_file|replace",
        timeout={"timeout": SECONDS * 1000},
    ),
    "qwen-code": Plug(
        home=_home("QWEN_HOME", ".qwen"),
        programs=("qwen",),
        targets=_qwen,
        matcher="run_shell_command|write_file|edit|notebook_edit",
    ),
    "copilot-cli": Plug(
        home=_home("COPILOT_HOME", ".copilot"),
        programs=("copilot",),
        targets=_copilot,
        # Our tools too: no file of it gives them leave, but the answer of a hook does.
        matcher="bash|powershell|create|edit|apply_patch|reasonbank-memory_.*",
        timeout={"timeoutSec": SECONDS},
    ),
    "opencode": Plug(home=_opencode_home, programs=("opencode",), targets=_opencode),
    "cursor": Plug(
        home=_home("CURSOR_CONFIG_DIR", ".cursor"),
        programs=("cursor", "cursor-agent"),
        targets=_cursor,
        matcher="Shell|Write|Delete",
        advice=("Written as Cursor's documents say; it was not tried with the program.",),
    ),
}


def targets(agent: str, wish: Wish, environment: Mapping[str, str]) -> tuple[Target, ...]:
    plug = PLUGS[agent]
    return plug.targets(plug, wish, plug.folder(wish, environment))
