"""Every setting once: its default, its rule and its meaning, side by side.

Order, later wins: the defaults below, the settings file (`REASONBANK_CONFIG`, else
`config.toml` or `config.yaml` in the user's configuration folder), environment variables
(`REASONBANK_URL`, `REASONBANK_SEARCH_LIMIT`: section and name joined by an underscore).
An unknown or wrong setting is refused by its name.
"""

import os
import re
import shlex
import sys
import warnings
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from reasonbank.errors import InvalidInput, InvalidSetting
from reasonbank.fields import (
    LIMITS,
    SHARE,
    Limits,
    Nested,
    Number,
    OneOf,
    Rule,
    Ruled,
    Whole,
    ruled,
)
from reasonbank.values import valueclass

S = TypeVar("S")

ORG, TEAM = "local", "default"

# Ours, but no settings: where to find settings, where an agent keeps its token, where a server
# listens (options of `serve`), and what benches and tests read.
_OTHER_VARIABLES = tuple(
    f"REASONBANK_{name}" for name in ("CONFIG", "TOKEN", "HOST", "PORT", "DATA")
)
_FOR_TESTS = "REASONBANK_TEST_"


class Url(Rule):
    """What is refused may be a key in the wrong place: it is not repeated."""

    def check(self, value: Any, name: str, limits: Limits) -> str:
        if value and not _is_url(value):
            raise InvalidInput(name, "must be an http(s) URL without credentials or query string")
        return str(value)

    def __str__(self) -> str:
        return "an http(s) URL"


def _is_url(text: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if not re.fullmatch(r"[!-~]+", text) or ".." in text:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain


class Variable(Rule):
    """As with a URL, what is refused is not repeated."""

    def check(self, value: Any, name: str, limits: Limits) -> str:
        if value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", value):
            raise InvalidInput(
                name, "must be the name of an environment variable; the key itself stays there"
            )
        return str(value)

    def __str__(self) -> str:
        return "the name of a variable"


class Commands(Rule):
    """Commands by name, each in the words of a shell, though no shell runs them."""

    def check(self, value: Any, name: str, limits: Limits) -> Mapping[str, str]:
        if not isinstance(value, Mapping):
            raise InvalidInput(name, "is a section of names and commands")
        for key, command in value.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", str(key)):
                raise InvalidInput(f"{name}.{key}", "is not a valid name; use a-z, 0-9 and _")
            try:
                words = shlex.split(command) if isinstance(command, str) else []
            except ValueError as error:
                raise InvalidInput(
                    f"{name}.{key}", f"{command!r} is not a valid command: {error}"
                ) from None
            if not words or "\0" in command:
                raise InvalidInput(f"{name}.{key}", f"{command!r} is not a valid command")
        return value

    def __str__(self) -> str:
        return "a command"


# Beside each other: the formatter would give each part of a setting a line of its own.
# fmt: off
@valueclass(frozen=True, slots=True, kw_only=True)
class Embed:
    model: Annotated[str, OneOf("minilm", "hashed", "onnx", "api"),
        "Turns text into vectors. minilm and hashed are built in, onnx is a folder, api a server."
    ] = "minilm"
    runtime: Annotated[str, OneOf("auto", "numpy", "onnxruntime"),
        "For minilm: what computes. auto is numpy, and onnxruntime (if installed) in servers, "
        "workers and whatever embeds much."] = "auto"
    folder: Annotated[str, "For onnx: where model.onnx and tokenizer.json are."] = ""
    api_model: Annotated[str, "For api: the name of the model."] = "text-embedding-3-small"
    dimensions: Annotated[int, Whole(0, 16_384),
        "For api: the length of a vector; 0 is the model's own, where it is a known model."] = 0
    base_url: Annotated[str, Url(), "For api: where the server is."] = "https://api.openai.com/v1"
    key_env: Annotated[str, Variable(),
        "For api: the environment variable that holds the key; empty if the server wants none."
    ] = "OPENAI_API_KEY"

    def check_together(self) -> None:
        if self.model == "onnx" and not self.folder:
            raise InvalidSetting("embed.folder", "is empty; name the folder of the ONNX model")
        if self.model == "api" and not (self.base_url and self.api_model):
            raise InvalidSetting("embed.base_url", "or embed.api_model is empty; name both")


@valueclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """For an index on a server; which one that is, says `?index=` in the bank's URL."""

    timeout_seconds: Annotated[float, Number(0.1, 600),
        "How long a server may take; then a search goes on without it."] = 5.0
    retry_seconds: Annotated[float, Number(0, 3600),
        "How long one that failed is left alone before it is asked again."] = 5.0
    key_env: Annotated[str, Variable(), "The environment variable that holds its key; empty is "
        "QDRANT_API_KEY or CHROMA_API_KEY, if that is set."] = ""
    quantization: Annotated[str, OneOf("none", "scalar", "binary"),
        "For a new Qdrant collection: whether smaller copies of vectors are searched."] = "none"
    replicas: Annotated[int, Whole(1, 100),
        "For a new Qdrant collection: how many copies of it a cluster keeps."] = 1


@valueclass(frozen=True, slots=True, kw_only=True)
class LLM:
    """The language model. Its key is no setting: it stays in the variable that holds it."""

    provider: Annotated[str,
        OneOf("none", "openrouter", "openai", "anthropic", "ollama", "openai-compatible"),
        "Whose language model thinks; none is none at all."] = "none"
    model: Annotated[str, "The name of the model."] = ""
    style: Annotated[str, OneOf("auto", "responses", "chat"),
        "The form of the API; auto is responses for OpenRouter and OpenAI, chat for the others."
    ] = "auto"
    base_url: Annotated[str, Url(), "Where the server is; empty is the provider's own."] = ""
    key_env: Annotated[str, Variable(),
        "The environment variable that holds the key; empty is the provider's own."] = ""
    effort: Annotated[str, OneOf("", "low", "medium", "high"),
        "How hard a reasoning model thinks; empty is the model's own."] = ""
    temperature: Annotated[float, Number(-1, 2), "Below 0 every task uses its own."] = -1.0
    max_tokens: Annotated[int, Whole(16), "No reply is longer; a task may ask for less."] = 4096
    input_tokens: Annotated[int, Whole(0),
        "A longer prompt loses its middle; 0 sends any."] = 100_000
    tokenizer: Annotated[str,
        "The model's own tokenizer.json: tokens are then counted rather than estimated."] = ""
    timeout_seconds: Annotated[float, Number(0.1), "For one attempt."] = 60.0
    retries: Annotated[int, Whole(0, 20),
        "How often a call is tried again that the network or a busy server failed."] = 3
    pause_seconds: Annotated[float, Number(0.001, 60),
        "The pause before the first retry, unless the server names one; each further one is twice "
        "as long, up to sixteen times."] = 0.5
    deadline_seconds: Annotated[float, Number(0.1),
        "For the whole call, with its retries and its wait for a turn."] = 180.0
    concurrency: Annotated[int, Whole(1, 1000), "How many calls may run at a time."] = 8
    rate_per_minute: Annotated[int, Whole(0), "Calls a minute; 0 means no limit."] = 0
    cache: Annotated[str, OneOf("off", "memory", "disk"),
        "Where replies to equal questions at temperature 0 are kept for a day."] = "memory"
    budget_tokens: Annotated[int, Whole(0), "What one process may spend; 0 means no limit."] = 0

    def check_together(self) -> None:
        if self.provider != "none" and not self.model:
            raise InvalidSetting("llm.model", f"is empty; name a model of {self.provider}")
        if self.provider == "openai-compatible" and not self.base_url:
            raise InvalidSetting("llm.base_url", "is empty; say where the server is")
        if self.provider == "anthropic" and self.style != "auto":
            raise InvalidSetting(
                "llm.style", f"{self.style!r} is not for anthropic; leave it at auto"
            )


ModelRole = Literal["thinking", "evaluating", "judging", "distilling", "merging"]
ROLES: tuple[ModelRole, ...] = get_args(ModelRole)


@valueclass(frozen=True, slots=True, kw_only=True)
class RoleModel:
    """The model for one role, where it is not the one of `llm`, whose limits hold for all."""

    model: Annotated[str, "The name of the model; empty is the one of llm."] = ""
    provider: Annotated[str,
        OneOf("", "openrouter", "openai", "anthropic", "ollama", "openai-compatible"),
        "Whose model it is; empty is that of llm."] = ""
    style: Annotated[str, OneOf("", "auto", "responses", "chat"),
        "The form of the API; empty is that of llm."] = ""
    base_url: Annotated[str, Url(), "Where the server is; empty is that of llm, or of the "
        "provider if that is another one."] = ""
    key_env: Annotated[str, Variable(),
        "The environment variable that holds the key; no other server gets the key of llm."] = ""


@valueclass(frozen=True, slots=True, kw_only=True)
class Search:
    limit: Annotated[int, Whole(1, LIMITS.results), "How many memories a search returns."] = 5
    similarity: Annotated[float, SHARE, "The weight of meaning and words in the score."] = 0.8
    recency: Annotated[float, SHARE, "The weight of how new a memory is."] = 0.1
    error_match: Annotated[float, SHARE, "The weight of a warning's error in the question."] = 0.1
    half_life_days: Annotated[float, Number(0.01),
        "After this time a memory counts as half as new."] = 30.0
    diversity: Annotated[float, SHARE,
        "1 ranks by score alone; less makes room for different answers (the lambda of MMR)."] = 0.5
    threshold: Annotated[float, Number(-1, 1),
        "The least relevance of an answer; below 0 it is the embedding model's calibrated one."
    ] = -1.0

    def check_together(self) -> None:
        if not self.similarity + self.recency + self.error_match > 0:
            raise InvalidSetting(
                "search.similarity",
                "is 0, and so are search.recency and search.error_match; raise one",
            )


@valueclass(frozen=True, slots=True, kw_only=True)
class BeliefSettings:
    model: Annotated[str, OneOf("contextual", "bayesian", "additive", "safla"),
        "How evidence becomes confidence: contextual ranks by how a memory fared on similar "
        "questions, bayesian by all alike."] = "contextual"
    half_life_days: Annotated[float, Number(30), "After this time evidence weighs half."] = 180.0
    prune_below: Annotated[float, SHARE,
        "Under this confidence a memory is not returned, and `maintain` archives it."] = 0.3
    inject_above: Annotated[float, SHARE,
        "From this confidence on a memory is put into prompts unasked."] = 0.5


@valueclass(frozen=True, slots=True, kw_only=True)
class Learn:
    reasoner: Annotated[str, OneOf("auto", "model", "agent", "rules"),
        "Who learns from sessions: a model, the agent that calls, or rules. auto is the model "
        "where one is set, else rules."] = "auto"
    workers: Annotated[int, Whole(1), "How many jobs a server works on at a time."] = 2


@valueclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What servers write to standard error."""

    level: Annotated[str, OneOf("debug", "info", "warning", "error"),
        "The least that is worth a line on standard error."] = "info"
    format: Annotated[str, OneOf("auto", "json", "text"),
        "The form of such a line; auto is a sentence at a terminal, else JSON."] = "auto"


@valueclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    endpoint: Annotated[str,
        "Where OpenTelemetry spans go (OTLP over HTTP); empty sends none."] = ""


@valueclass(frozen=True, slots=True, kw_only=True)
class Passive:
    """Questions and answers that are kept without being asked to."""

    enabled: Annotated[bool, "Whether questions and answers are kept without being asked."] = True
    min_length: Annotated[int, Whole(1), "How many characters an answer must have."] = 100
    code: Annotated[bool, "Whether answers with code are kept."] = True
    explanations: Annotated[bool, "Whether answers that explain are kept."] = True
    steps: Annotated[bool, "Whether answers with steps are kept."] = True


@valueclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What `reasonbank hook` does when an agent calls it."""

    enabled: Annotated[bool, "Whether hooks do anything at all."] = True
    budget: Annotated[int, Whole(100, 100_000),
        "How many tokens the memories for one prompt may take."] = 800
    warn: Annotated[bool,
        "Whether an agent is warned of what failed before, and told what helped."] = True
    ask: Annotated[bool,
        "Whether the agent is asked, once a session and only if something was learned, to record "
        "it itself."] = False
    learn: Annotated[bool,
        "Whether sessions are handed over to be learned from, by a worker that ends by itself "
        "where no server runs."] = True


@valueclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Questions that found nothing, kept to show what the bank does not know."""

    keep: Annotated[int, Whole(0, 10_000),
        "How many questions that found nothing a workspace keeps, the latest; 0 keeps none."] = 1000
    days: Annotated[int, Whole(1, 100_000), "One that was not asked for so long is dropped."] = 90


@valueclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What `reasonbank serve` takes from the network."""

    hosts: Annotated[str,
        "Names besides its own that the server answers to, separated by commas."] = ""
    origins: Annotated[str,
        "Web pages of other sites that may call it, e.g. `https://example.org`, comma-separated."
    ] = ""
    body_bytes: Annotated[int, Whole(1000), "The largest body of a request."] = 8_000_000
    import_bytes: Annotated[int, Whole(1000), "The largest file to import."] = 256_000_000
    rate: Annotated[float, Number(0.1),
        "Requests a second for each caller; as many may come at once."] = 1000.0
    concurrency: Annotated[int, Whole(1),
        "Requests that are worked on or wait for a thread; one more is turned away."] = 64
    connections: Annotated[int, Whole(1), "Connections at a time."] = 512
    patience: Annotated[float, Number(0.1),
        "Seconds that a client gets to send its request, and ten times that for an import."] = 10.0


@valueclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """How `solve` goes about a task, where its caller does not say."""

    mode: Annotated[str, OneOf("parallel", "sequential", "adaptive", "off"),
        "Several attempts at once, one after another, as many as needed, or one."] = "parallel"
    k: Annotated[int, Whole(1, 5), "How many attempts."] = 5
    iterations: Annotated[int, Whole(1, 10), "How often an attempt is refined."] = 3
    memories: Annotated[int, Whole(1, LIMITS.results), "The most memories in a prompt."] = 3
    budget_tokens: Annotated[int, Whole(0), "For one task; 0 means no limit."] = 200_000


@valueclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a verifier may use."""

    seconds: Annotated[float, Number(0.1, 3600), "How long a verifier may run."] = 60.0
    memory_mb: Annotated[int, Whole(16), "The memory that it may use."] = 1024
    disk_mb: Annotated[int, Whole(1), "How much it may write to disk."] = 64
    processes: Annotated[int, Whole(1), "How many processes it may start."] = 64
    output_kb: Annotated[int, Whole(1), "How much it may print."] = 1024
    network: Annotated[str, OneOf("refuse", "allow"),
        "Where a closed box cannot be had: refuse to run a verifier, or allow it without a box; "
        "over HTTP and MCP it is refused all the same."
    ] = "refuse"


@valueclass(frozen=True, slots=True, kw_only=True)
class Merge:
    threshold: Annotated[float, Number(-1, 1),
        "From this cosine on two memories say the same; below 0 it is the embedding model's "
        "calibrated one."] = -1.0


@valueclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often a worker sees to each project; 0 is never."""

    consolidate_hours: Annotated[float, Number(0),
        "How often a project is consolidated, unless it is forced; 0 is never."] = 24.0
    maintain_hours: Annotated[float, Number(0), "How often it is maintained."] = 24.0
    promote_hours: Annotated[float, Number(0),
        "How often its memories are looked at for what the team can use."] = 24.0


@valueclass(frozen=True, slots=True, kw_only=True)
class ProofSettings:
    hold_out: Annotated[float, SHARE,
        "The share of named tasks that get no memory, to measure what memory is worth."] = 0.0
    seed: Annotated[int, Whole(-(1 << 62)), "Which tasks these are: another seed draws others."] = 0


@valueclass(frozen=True, slots=True, kw_only=True)
class Settings:
    url: Annotated[str, "Where the bank is; empty is a file in the user's data folder."] = ""
    org: Annotated[str, "The organisation that workspaces belong to."] = ORG
    team: Annotated[str, "The team that they belong to."] = TEAM
    author: Annotated[str, "Who writes; empty is the user's name."] = ""
    trace_days: Annotated[int, Whole(0),
        "How long `maintain` keeps traces; 0 keeps them for good."] = 0
    scrub: Annotated[bool,
        "Whether secrets are taken out of everything before it is stored."] = True
    embed: Embed = field(default_factory=Embed)
    index: IndexSettings = field(default_factory=IndexSettings)
    llm: LLM = field(default_factory=LLM)
    thinking: RoleModel = field(default_factory=RoleModel)
    evaluating: RoleModel = field(default_factory=RoleModel)
    judging: RoleModel = field(default_factory=RoleModel)
    distilling: RoleModel = field(default_factory=RoleModel)
    merging: RoleModel = field(default_factory=RoleModel)
    search: Search = field(default_factory=Search)
    belief: BeliefSettings = field(default_factory=BeliefSettings)
    learn: Learn = field(default_factory=Learn)
    log: Log = field(default_factory=Log)
    telemetry: Telemetry = field(default_factory=Telemetry)
    passive: Passive = field(default_factory=Passive)
    gaps: Gaps = field(default_factory=Gaps)
    hooks: Hooks = field(default_factory=Hooks)
    server: Server = field(default_factory=Server)
    agent: Agent = field(default_factory=Agent)
    verify: Annotated[Mapping[str, str], Commands(),
        'The verifiers: a name for each command, e.g. `pytest = "pytest -q"`.'
    ] = field(default_factory=dict)
    sandbox: Sandbox = field(default_factory=Sandbox)
    merge: Merge = field(default_factory=Merge)
    schedule: Schedule = field(default_factory=Schedule)
    proof: ProofSettings = field(default_factory=ProofSettings)
    limits: Limits = field(default_factory=Limits)

    def llm_of(self, role: ModelRole) -> LLM:
        """The language model for a role; what its section does not set is as in ``llm``."""
        own: RoleModel = getattr(self, role)
        llm = self.llm
        if own.provider not in ("", llm.provider):
            llm = replace(llm, provider=own.provider, base_url="", key_env="", style="auto")
        elif own.base_url not in ("", llm.base_url):
            llm = replace(llm, key_env="")  # It is meant for the other server.
        set = {f.name: value for f in ruled(RoleModel) if (value := getattr(own, f.name))}
        return replace(llm, **set)

    def check_together(self) -> None:
        for role in ROLES:
            if getattr(self, role) == RoleModel():
                continue
            if not getattr(self, role).model:
                raise InvalidSetting(f"{role}.model", "is empty; name the model for this role")
            llm = self.llm_of(role)
            if llm.provider == "none":
                raise InvalidSetting(f"{role}.provider", "is empty, and llm.provider is none")
            if llm.provider == "openai-compatible" and not llm.base_url:
                raise InvalidSetting(f"{role}.base_url", "is empty; say where the server is")
# fmt: on


GONE = frozenset({
    "embed.timeout_seconds", "embed.cache_size", "embed.cache_seconds",
    "llm.cache_size", "llm.cache_seconds",
    "search.project", "search.team", "search.org", "search.consolidated", "search.pool",
    "belief.roll_up_days", "belief.promote_above", "learn.attempts", "learn.duplicate",
    "server.threads", "agent.enough", "merge.at_once", "schedule.limit_minutes",
    "limits.parents", "limits.label", "limits.error_type", "limits.error_text",
    "limits.stack_trace", "limits.comment", "limits.query", "limits.results", "limits.trace",
    "limits.steps", "limits.nesting",
})  # fmt: skip
"""Settings of before, which are constants now: warned of for one release, then unknown."""

_TRUTHS = {"true": True, "false": False, "1": True, "0": False}


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
    return settings


def _check_section(section: Any, prefix: str) -> None:
    kind: Any = type(section)
    for f in ruled(kind):
        value = getattr(section, f.name)
        if isinstance(f.rule, Nested):
            _check_section(value, f"{prefix}{f.name}.")
        else:
            _checked(f"{prefix}{f.name}", value, f, "the settings given")
    if together := getattr(section, "check_together", None):
        together()


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


def default_url() -> str:
    return f"sqlite:///{user_folder('XDG_DATA_HOME', '.local/share', os.environ) / 'bank.db'}"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        if path.suffix in (".yaml", ".yml"):
            data = _yaml(raw) or {}
        else:
            import tomllib

            data = tomllib.loads(raw.decode())
    except (OSError, ValueError) as error:
        raise InvalidSetting(str(path), f"cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise InvalidSetting(str(path), "must hold names and values")
    return data


def _yaml(raw: bytes) -> Any:
    import yaml

    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    sections = {f.name for f in ruled(Settings) if isinstance(f.rule, Nested | Commands)}
    result: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith("REASONBANK_") or variable.startswith(_FOR_TESTS):
            continue
        if variable in _OTHER_VARIABLES:
            continue
        name = variable.removeprefix("REASONBANK_").lower()
        section, _, rest = name.partition("_")
        if section in sections and rest:
            result.setdefault(section, {})[rest] = value
        else:
            result[name] = value
    return result


def _overlaid(settings: S, values: Mapping[str, Any], source: str, prefix: str = "") -> S:
    kind: Any = type(settings)
    known = {f.name: f for f in ruled(kind)}
    changes: dict[str, Any] = {}
    for name, value in values.items():
        full = f"{prefix}{name}"
        current = getattr(settings, name, None)
        if full in GONE:
            warnings.warn(
                f"{full} (in {source}) is no longer a setting and is ignored; remove it",
                FutureWarning,
                stacklevel=2,
            )
        elif name not in known:
            raise InvalidSetting(
                full, f"is not a setting (in {source}); known: {', '.join(sorted(known))}"
            )
        elif isinstance(known[name].rule, Nested):
            if not isinstance(value, Mapping):
                raise InvalidSetting(full, f"is a section (in {source}), not a value")
            changes[name] = _overlaid(current, value, source, f"{full}.")
        elif isinstance(current, Mapping):
            changes[name] = {**current, **_checked(full, value, known[name], source)}
        else:
            changes[name] = _checked(full, _typed(value, type(current)), known[name], source)
    return replace(settings, **changes)  # type: ignore[type-var]


def _typed(value: Any, kind: type) -> Any:
    """``value`` as it was meant: variables are texts, and in YAML `org: 5` is a number."""
    if kind is bool:
        return _TRUTHS.get(str(value).lower(), value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if kind is not str and isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def _checked(name: str, value: Any, field: Ruled, source: str) -> Any:
    try:
        return (field.rule or _Words()).check(value, name, LIMITS)
    except InvalidInput as refused:
        raise InvalidSetting(refused.field, f"{refused.problem} (in {source})") from None


class _Words(Rule):
    def check(self, value: Any, name: str, limits: Limits) -> str:
        if not isinstance(value, str):
            raise InvalidInput(name, f"must be text, got {type(value).__name__}")
        return value
