"""Every setting, once. A file and the environment may change it; a wrong one is refused.

Order, later wins: the defaults below, the settings file (`REASONBANK_CONFIG`, else
`config.toml` or `config.yaml` in the user's configuration folder), environment variables
(`REASONBANK_URL`, `REASONBANK_SEARCH_LIMIT`: section and name joined by an underscore).
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from reasonbank.errors import InvalidSetting
from reasonbank.fields import Limits

S = TypeVar("S")

ORG, TEAM = "local", "default"

# Ours, but no settings: where to find settings, where an agent keeps its token, and what
# benches and tests read.
_OTHER_VARIABLES = ("REASONBANK_CONFIG", "REASONBANK_TOKEN", "REASONBANK_DATA")
_FOR_TESTS = "REASONBANK_TEST_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    model: str = "minilm"
    """minilm and hashed are built in, onnx is a folder, api is a server."""
    folder: str = ""
    """For onnx: where model.onnx and tokenizer.json are."""
    api_model: str = "text-embedding-3-small"
    dimensions: int = 0
    """For api: 0 is the model's own number, where it is a known model."""
    base_url: str = "https://api.openai.com/v1"
    key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; empty for a server that wants none."""
    timeout_seconds: float = 30.0
    cache_size: int = 512
    cache_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    limit: int = 5
    similarity: float = 0.8
    recency: float = 0.1
    error_match: float = 0.1
    half_life_days: float = 30.0
    diversity: float = 0.5
    """The lambda of MMR: 1 ranks by score alone, less makes room for different answers."""
    project: float = 1.0
    team: float = 0.9
    org: float = 0.8
    consolidated: float = 1.2
    """What a merged memory's score is multiplied by, where it fits the question as well as any."""
    pool: int = 100
    threshold: float = -1.0
    """The least relevance of an answer; below 0 the embedding model's calibrated one is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefSettings:
    model: str = "contextual"
    """`contextual` ranks by how a memory fared on similar questions; `bayesian` by all alike."""
    half_life_days: float = 180.0
    prune_below: float = 0.3
    inject_above: float = 0.5
    roll_up_days: int = 30
    promote_above: float = 0.6
    """A lower bound from which on a memory is shared with the team, when projects agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    reasoner: str = "auto"
    """Who learns from sessions: model, agent (the one that calls) or rules. auto is model where
    one is set, else rules."""
    workers: int = 2
    attempts: int = 5
    """So often a job is tried before it is put aside."""
    duplicate: float = 0.9
    """From this cosine on, a lesson is one that is stored already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    threshold: float = -1.0
    """From this cosine on, two memories say the same; below 0 the embedding model's calibrated
    one is used."""
    at_once: int = 10
    """So many clusters are merged side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often a worker sees to each project; 0 is never."""

    consolidate_hours: float = 24.0
    """Within this time a project is consolidated once, unless it is forced."""
    maintain_hours: float = 24.0
    promote_hours: float = 24.0
    limit_minutes: float = 10.0
    """For one task of one project; what is not done then is done the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLM:
    """The language model. Its key is no setting: it stays in the variable that holds it."""

    provider: str = "none"
    model: str = ""
    style: str = "auto"
    """auto is responses for OpenRouter and OpenAI, chat for the others."""
    base_url: str = ""
    """Empty is the provider's own."""
    key_env: str = ""
    """The environment variable that holds the key; empty is the provider's own."""
    effort: str = ""
    temperature: float = -1.0
    """Below 0 every task uses its own."""
    max_tokens: int = 4096
    """No reply is longer; a task may ask for less."""
    input_tokens: int = 100_000
    """A longer prompt loses its middle; 0 sends any."""
    tokenizer: str = ""
    """The model's own tokenizer.json, if you have it: tokens are then counted rather than
    estimated at four characters each."""
    timeout_seconds: float = 60.0
    """For one attempt."""
    deadline_seconds: float = 180.0
    """For the whole call, with its retries and its wait for a turn."""
    concurrency: int = 8
    rate_per_minute: int = 0
    """0 is no limit."""
    cache: str = "memory"
    cache_size: int = 1000
    cache_seconds: float = 86_400.0
    budget_tokens: int = 0
    """What one process may spend; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What servers write to standard error."""

    level: str = "info"
    format: str = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    endpoint: str = ""
    """Where OpenTelemetry spans go (OTLP over HTTP); empty sends none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passive:
    """Questions and answers that are kept without being asked to."""

    enabled: bool = True
    min_length: int = 100
    """How many characters an answer must have."""
    code: bool = True
    explanations: bool = True
    steps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Questions that found nothing, kept to show what the bank does not know."""

    keep: int = 1000
    """So many of a workspace, the latest; 0 keeps none, and drops what was kept."""
    days: int = 90
    """One that was not asked for so long is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What `reasonbank serve` takes from the network."""

    hosts: str = ""
    """Names besides its own that it answers to, separated by commas (the `Host` header)."""
    origins: str = ""
    """Web pages of other sites that may call it, e.g. `https://example.org`, comma-separated."""
    body_bytes: int = 8_000_000
    import_bytes: int = 256_000_000
    rate: float = 1000.0
    """Requests a second for each caller; as many may come at once."""
    concurrency: int = 64
    """Requests that are worked on or wait for a thread; one more is turned away."""
    connections: int = 512
    threads: int = 8
    patience: float = 10.0
    """Seconds that a client gets to send its request, and ten times that for an import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How `solve` goes about a task, where its caller does not say."""

    mode: str = "parallel"
    k: int = 5
    iterations: int = 3
    enough: float = 0.8
    """A score from here on ends the work."""
    memories: int = 3
    """So many memories go into a prompt at most."""
    budget_tokens: int = 200_000
    """For one task; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a verifier may use."""

    seconds: float = 60.0
    memory_mb: int = 1024
    disk_mb: int = 64
    processes: int = 64
    output_kb: int = 1024
    network: str = "refuse"
    """Where the network cannot be cut off, a verifier is refused, or allowed to run with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofSettings:
    hold_out: float = 0.0
    """The share of named tasks that get no memory, to measure what memory is worth."""
    seed: int = 0
    """Which tasks these are: another seed draws others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    url: str = ""
    org: str = ORG
    team: str = TEAM
    author: str = ""
    trace_days: int = 0
    """How long traces are kept by `maintain`; 0 keeps them for good."""
    scrub: bool = True
    """Whether secrets are taken out of everything before it is stored."""
    embed: Embed = field(default_factory=Embed)
    llm: LLM = field(default_factory=LLM)
    search: Search = field(default_factory=Search)
    belief: BeliefSettings = field(default_factory=BeliefSettings)
    learn: Learn = field(default_factory=Learn)
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    passive: Passive = field(default_factory=Passive)
    gaps: Gaps = field(default_factory=Gaps)
    server: Server = field(default_factory=Server)
    agent: Agent = field(default_factory=Agent)
    verify: Mapping[str, str] = field(default_factory=dict)
    """The verifiers: a name for each command, e.g. pytest = "pytest -q"."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    merge: Merge = field(default_factory=Merge)
    schedule: Schedule = field(default_factory=Schedule)
    proof: ProofSettings = field(default_factory=ProofSettings)
    limits: Limits = field(default_factory=Limits)


CHOICES = {
    "embed.model": ("minilm", "hashed", "onnx", "api"),
    "llm.provider": ("none", "openrouter", "openai", "anthropic", "ollama", "openai-compatible"),
    "llm.style": ("auto", "responses", "chat"),
    "llm.effort": ("", "low", "medium", "high"),
    "llm.cache": ("off", "memory", "disk"),
    "belief.model": ("contextual", "bayesian", "additive", "safla"),
    "learn.reasoner": ("auto", "model", "agent", "rules"),
    "log.level": ("debug", "info", "warning", "error"),
    "log.format": ("json", "text"),
    "agent.mode": ("parallel", "sequential", "adaptive", "off"),
    "sandbox.network": ("refuse", "allow"),
}
SHARES = {
    "search.similarity", "search.recency", "search.error_match", "search.diversity",
    "search.project", "search.team", "search.org", "belief.prune_below", "belief.inject_above",
    "learn.duplicate", "agent.enough", "belief.promote_above", "proof.hold_out",
}  # fmt: skip
LEAST = {
    "search.limit": 1, "search.pool": 10, "search.half_life_days": 0.01, "search.threshold": -1,
    "search.consolidated": 1, "belief.half_life_days": 30, "belief.roll_up_days": 30,
    "embed.cache_size": 0, "embed.cache_seconds": 0, "trace_days": 0, "learn.workers": 1,
    "learn.attempts": 1, "passive.min_length": 1, "gaps.keep": 0, "gaps.days": 1,
    "merge.threshold": -1, "merge.at_once": 1,
    "schedule.consolidate_hours": 0, "schedule.maintain_hours": 0, "schedule.promote_hours": 0,
    "schedule.limit_minutes": 0.01,
    "embed.dimensions": 0, "embed.timeout_seconds": 0.1,
    "llm.temperature": -1, "llm.max_tokens": 16, "llm.input_tokens": 0,
    "llm.timeout_seconds": 0.1, "llm.deadline_seconds": 0.1, "llm.concurrency": 1,
    "llm.rate_per_minute": 0, "llm.cache_size": 1, "llm.cache_seconds": 0, "llm.budget_tokens": 0,
    "server.body_bytes": 1000, "server.import_bytes": 1000, "server.rate": 0.1,
    "server.concurrency": 1, "server.connections": 1, "server.threads": 1,
    "server.patience": 0.1,
    "agent.k": 1, "agent.iterations": 1, "agent.memories": 1, "agent.budget_tokens": 0,
    "sandbox.seconds": 0.1, "sandbox.memory_mb": 16, "sandbox.disk_mb": 1, "sandbox.processes": 1,
    "sandbox.output_kb": 1,
}  # fmt: skip


TRUTHS = {"true": True, "false": False, "1": True, "0": False}
MOST = {
    "search.limit": Limits().results, "search.consolidated": 2, "llm.temperature": 2,
    "llm.concurrency": 1000,
    "embed.dimensions": 16_384, "agent.k": 5, "agent.iterations": 10,
    "agent.memories": Limits().results, "sandbox.seconds": 3600,
    "merge.threshold": 1, "merge.at_once": 100, "gaps.keep": 10_000, "gaps.days": 100_000,
}  # fmt: skip
URLS = {"embed.base_url", "llm.base_url"}
VARIABLES = {"embed.key_env", "llm.key_env"}


def load(environment: Mapping[str, str] | None = None) -> Settings:
    environment = os.environ if environment is None else environment
    settings = Settings()
    if (path := config_path(environment)) is not None:
        settings = _overlaid(settings, _read(path), str(path))
    settings = _overlaid(settings, _from_environment(environment), "the environment")
    return check(settings)


def check(settings: Settings) -> Settings:
    """``settings`` if every value is allowed, wherever it came from."""
    _check_section(settings, "")
    search = settings.search
    if not search.similarity + search.recency + search.error_match > 0:
        raise InvalidSetting(
            "search.similarity", "is 0, and so are search.recency and search.error_match; raise one"
        )
    _check_models(settings)
    return settings


def _check_models(settings: Settings) -> None:
    llm, embed = settings.llm, settings.embed
    if llm.provider != "none" and not llm.model:
        raise InvalidSetting("llm.model", f"is empty; name a model of {llm.provider}")
    if llm.provider == "openai-compatible" and not llm.base_url:
        raise InvalidSetting("llm.base_url", "is empty; say where the server is")
    if llm.provider == "anthropic" and llm.style != "auto":
        raise InvalidSetting("llm.style", f"{llm.style!r} is not for anthropic; leave it at auto")
    if embed.model == "onnx" and not embed.folder:
        raise InvalidSetting("embed.folder", "is empty; name the folder of the ONNX model")
    if embed.model == "api" and not (embed.base_url and embed.api_model):
        raise InvalidSetting("embed.base_url", "or embed.api_model is empty; name both")


def _check_section(section: Any, prefix: str) -> None:
    for f in fields(section):
        value = getattr(section, f.name)
        if is_dataclass(value):
            _check_section(value, f"{prefix}{f.name}.")
        elif isinstance(value, Mapping):
            _commands(f"{prefix}{f.name}", value, "the settings given")
        else:
            _checked(f"{prefix}{f.name}", value, f.default, "the settings given")


def config_path(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get("REASONBANK_CONFIG"):
        if not (path := Path(named)).is_file():
            raise InvalidSetting("REASONBANK_CONFIG", f"there is no file {named!r}")
        return path
    folder = user_folder("XDG_CONFIG_HOME", ".config", environment)
    names = ("config.toml", "config.yaml", "config.yml")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def user_folder(variable: str, fallback: str, environment: Mapping[str, str]) -> Path:
    """The platform's folder for our files."""
    home = Path(environment.get("HOME") or Path.home())
    if named := environment.get(variable):
        return Path(named) / "reasonbank"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "reasonbank"
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home) / "reasonbank"
    return home / fallback / "reasonbank"


def default_url(environment: Mapping[str, str] | None = None) -> str:
    environment = os.environ if environment is None else environment
    return f"sqlite:///{user_folder('XDG_DATA_HOME', '.local/share', environment) / 'bank.db'}"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        if path.suffix in (".yaml", ".yml"):
            import yaml

            data = yaml.safe_load(raw) or {}
        else:
            import tomllib

            data = tomllib.loads(raw.decode())
    except (OSError, ValueError) as error:
        raise InvalidSetting(str(path), f"cannot be read: {error}") from None
    except Exception as error:  # noqa: BLE001  (yaml's errors have no base that can be named unloaded)
        raise InvalidSetting(str(path), f"cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise InvalidSetting(str(path), "must hold names and values")
    return data


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith("REASONBANK_") or variable.startswith(_FOR_TESTS):
            continue
        if variable in _OTHER_VARIABLES:
            continue
        name = variable.removeprefix("REASONBANK_").lower()
        section, _, rest = name.partition("_")
        known = getattr(Settings(), section, None)
        if (is_dataclass(known) or isinstance(known, Mapping)) and rest:
            result.setdefault(section, {})[rest] = value
        else:
            result[name] = value
    return result


def _overlaid(settings: S, values: Mapping[str, Any], source: str, prefix: str = "") -> S:
    known = {f.name for f in fields(settings)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for name, value in values.items():
        full = f"{prefix}{name}"
        if name not in known:
            raise InvalidSetting(
                full, f"is no setting (in {source}); known: {', '.join(sorted(known))}"
            )
        current = getattr(settings, name)
        if is_dataclass(current):
            if not isinstance(value, Mapping):
                raise InvalidSetting(full, f"is a section (in {source}), not a value")
            changes[name] = _overlaid(current, value, source, f"{full}.")
        elif isinstance(current, Mapping):
            changes[name] = {**current, **_commands(full, value, source)}
        else:
            changes[name] = _checked(full, value, current, source)
    return replace(settings, **changes)  # type: ignore[type-var]


def _commands(name: str, value: Any, source: str) -> Mapping[str, str]:
    """Commands by name, each in the words of a shell, though no shell runs them."""
    if not isinstance(value, Mapping):
        raise InvalidSetting(name, f"is a section of names and commands (in {source})")
    for key, command in value.items():
        full = f"{name}.{key}"
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", str(key)):
            raise InvalidSetting(full, f"is no name; use a-z, 0-9 and _ (in {source})")
        try:
            words = shlex.split(command) if isinstance(command, str) else []
        except ValueError as error:
            raise InvalidSetting(
                full, f"{command!r} is no command: {error} (in {source})"
            ) from None
        if not words or "\0" in command:
            raise InvalidSetting(full, f"{command!r} is no command (in {source})")
    return value


def _checked(name: str, value: Any, current: Any, source: str) -> Any:
    try:
        if isinstance(current, bool):
            return value if isinstance(value, bool) else TRUTHS[str(value).lower()]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        if isinstance(current, str):
            result: Any = str(value)
        elif isinstance(current, float):
            result = float(value)
        else:
            result = int(str(value))
    except (ValueError, KeyError):
        kinds = {str: "a text", float: "a number", int: "a whole number", bool: "true or false"}
        kind = kinds[type(current)]
        raise InvalidSetting(name, f"{value!r} is not {kind} (in {source})") from None
    _check_range(name, result, source)
    return result


def _check_range(name: str, value: Any, source: str) -> None:
    if name in CHOICES and value not in CHOICES[name]:
        raise InvalidSetting(name, f"{value!r} is none of {', '.join(CHOICES[name])} (in {source})")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSetting(name, f"{value!r} is not finite (in {source})")
    if name in SHARES and not 0 <= value <= 1:
        raise InvalidSetting(name, f"{value!r} is not from 0 to 1 (in {source})")
    if (least := LEAST.get(name)) is not None and value < least:
        raise InvalidSetting(name, f"{value!r} is less than {least} (in {source})")
    if (most := MOST.get(name)) is not None and value > most:
        raise InvalidSetting(name, f"{value!r} is more than {most} (in {source})")
    # What was refused here may be a key in the wrong place: it is not repeated.
    if name in URLS and value and not _is_url(value):
        raise InvalidSetting(
            name, f"is no http(s) address without name, password and query (in {source})"
        )
    if name in VARIABLES and value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise InvalidSetting(
            name, f"is no name of an environment variable; the key itself stays there (in {source})"
        )
    if name.startswith("limits."):
        largest = getattr(Limits(), name.removeprefix("limits."))
        if not 1 <= value <= largest:
            raise InvalidSetting(name, f"{value!r} is not from 1 to {largest} (in {source})")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if not re.fullmatch(r"[!-~]+", text) or ".." in text:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain
