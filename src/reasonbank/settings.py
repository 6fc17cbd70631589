"""Every setting, once. A file and the environment may change it; a wrong one is refused.

Order, later wins: the defaults below, the settings file (`REASONBANK_CONFIG`, else
`config.toml` or `config.yaml` in the user's configuration folder), environment variables
(`REASONBANK_URL`, `REASONBANK_SEARCH_LIMIT`: section and name joined by an underscore).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from reasonbank.errors import InvalidSetting
from reasonbank.model import Limits

S = TypeVar("S")

ORG, TEAM = "local", "default"

# Ours, but no settings: where to find settings, and what benches and tests read.
_OTHER_VARIABLES = ("REASONBANK_CONFIG", "REASONBANK_DATA")
_FOR_TESTS = "REASONBANK_TEST_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    model: str = "minilm"
    cache_size: int = 512
    cache_seconds: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    limit: int = 5
    similarity: float = 0.6
    recency: float = 0.3
    error_match: float = 0.1
    half_life_days: float = 30.0
    diversity: float = 0.5
    """The lambda of MMR: 1 ranks by score alone, less makes room for different answers."""
    project: float = 1.0
    team: float = 0.9
    org: float = 0.8
    pool: int = 100
    threshold: float = -1.0
    """The least relevance of an answer; below 0 the embedding model's calibrated one is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefSettings:
    model: str = "bayesian"
    half_life_days: float = 180.0
    prune_below: float = 0.3
    inject_above: float = 0.5
    roll_up_days: int = 30


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
class Settings:
    url: str = ""
    org: str = ORG
    team: str = TEAM
    author: str = ""
    trace_days: int = 0
    """How long traces are kept by `maintain`; 0 keeps them for good."""
    embed: Embed = field(default_factory=Embed)
    search: Search = field(default_factory=Search)
    belief: BeliefSettings = field(default_factory=BeliefSettings)
    learn: Learn = field(default_factory=Learn)
    limits: Limits = field(default_factory=Limits)


CHOICES = {
    "embed.model": ("minilm", "hashed"),
    "belief.model": ("bayesian", "additive", "safla"),
    "learn.reasoner": ("auto", "model", "agent", "rules"),
}
SHARES = {
    "search.similarity", "search.recency", "search.error_match", "search.diversity",
    "search.project", "search.team", "search.org", "belief.prune_below", "belief.inject_above",
    "learn.duplicate",
}  # fmt: skip
LEAST = {
    "search.limit": 1, "search.pool": 10, "search.half_life_days": 0.01, "search.threshold": -1,
    "belief.half_life_days": 30, "belief.roll_up_days": 30,
    "embed.cache_size": 0, "embed.cache_seconds": 0, "trace_days": 0, "learn.workers": 1,
    "learn.attempts": 1,
}  # fmt: skip


MOST = {"search.limit": Limits().results}


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
    return settings


def _check_section(section: Any, prefix: str) -> None:
    for f in fields(section):
        value = getattr(section, f.name)
        if is_dataclass(value):
            _check_section(value, f"{prefix}{f.name}.")
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
        if is_dataclass(getattr(Settings(), section, None)) and rest:
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
        else:
            changes[name] = _checked(full, value, current, source)
    return replace(settings, **changes)  # type: ignore[type-var]


def _checked(name: str, value: Any, current: Any, source: str) -> Any:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        if isinstance(current, str):
            result: Any = str(value)
        elif isinstance(current, float):
            result = float(value)
        else:
            result = int(str(value))
    except ValueError:
        kind = {str: "a text", float: "a number", int: "a whole number"}[type(current)]
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
    if name.startswith("limits."):
        largest = getattr(Limits(), name.removeprefix("limits."))
        if not 1 <= value <= largest:
            raise InvalidSetting(name, f"{value!r} is not from 1 to {largest} (in {source})")
