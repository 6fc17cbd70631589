"""From settings to a bank: the one place that knows which adapters there are."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from reasonbank import private
from reasonbank.embed.calibration import calibration_for
from reasonbank.embed.port import Embedder
from reasonbank.errors import InvalidSetting, NotFound
from reasonbank.index import address
from reasonbank.index.port import Index, Unreachable
from reasonbank.ledger.port import Ledger
from reasonbank.settings import ROLES, ModelRole, Settings, check, default_url, load
from reasonbank.store import forks
from reasonbank.store.context import Context, Store
from reasonbank.store.spans import export_to
from reasonbank.store.vectors import Indexing

if TYPE_CHECKING:
    from reasonbank.index.address import Address
    from reasonbank.ledger.sqlite import SQLiteLedger
    from reasonbank.llm.cache import Replies
    from reasonbank.llm.http import Key, Provider
    from reasonbank.llm.port import Effort, Model, ModelMeters


def open_store(
    url: str | None = None,
    *,
    settings: Settings | None = None,
    read_only: bool = False,
    create: bool = True,
    ledger: Ledger | None = None,
    embedder: Embedder | None = None,
    index: Index | None = None,
    clock: Callable[[], int] | None = None,
    model: Model | None = None,
) -> Store:
    settings = load() if settings is None else check(settings)
    export_to(settings)
    clock = clock or (lambda: time.time_ns() // 1000)
    named = url or settings.url or default_url()
    given = ledger
    if ledger is None:
        if not create and (missing := absent(url, settings)) is not None:
            raise no_bank(missing)
        ledger = open_ledger(named, settings, read_only=read_only, clock=clock)
    embedder = embedder or embedder_of(settings)
    about_index: tuple[str, ...] = ()
    if index is None:
        try:
            index, about_index = open_index(named, ledger, embedder, settings)
        except BaseException:
            if given is None:
                ledger.close()
            raise
    indexing = Indexing(ledger, index, embedder)
    if ledger.read_only and index.at_once is not None:
        indexing.spare = lambda: local_index(ledger, embedder)
    indexing.about_index = about_index
    notes = (
        ()
        if embedder.semantic
        else (f"the {embedder.name} embedder knows nothing of meaning; set embed.model to minilm",)
    )
    store = Store(ledger, indexing, settings, clock, notes)
    store.thinker = model
    if url is not None and (ledger.path is None or address.split(url)[1]):
        store.url = url
    forks.watch(store)
    store.tidy = lambda: _tidy(ledger.beside, embedder.name, index)
    return store


def absent(url: str | None, settings: Settings) -> Path | None:
    """Where the bank would be made, if it is not there yet."""
    url, _ = address.split(url or settings.url or default_url())
    scheme, found, _ = url.partition("://")
    if found and scheme != "sqlite":
        return None
    path = sqlite_path(url)
    try:
        path.stat()
    except FileNotFoundError:
        return path
    except OSError:
        return None  # Whoever opens it will say what is wrong.
    return None


def no_bank(path: Path) -> NotFound:
    return NotFound(
        f"there is no bank at {path}, and what only reads makes none; correct --bank, "
        "REASONBANK_URL or the setting url, or begin one there with `reasonbank record`"
    )


def open_ledger(
    url: str, settings: Settings, *, read_only: bool, clock: Callable[[], int]
) -> Ledger:
    url, _ = address.split(url)
    scheme, found, _ = url.partition("://")
    opened_by = LEDGERS.get(scheme if found else "sqlite")
    if opened_by is None:
        raise InvalidSetting(
            "url",
            f"{scheme!r} is not supported; use "
            "sqlite:///path/to/bank.db or postgresql://user:password@host/database",
        )
    return opened_by(url, settings, read_only, clock)


def _sqlite(url: str, settings: Settings, read_only: bool, clock: Callable[[], int]) -> Ledger:
    path = sqlite_path(url)
    from reasonbank.ledger.sqlite import SQLiteLedger

    half_life = settings.belief.half_life_days
    ledger = SQLiteLedger(path, read_only=read_only, half_life_days=half_life, clock=clock)
    private.tighten(own_files(path))
    return ledger


def open_file(path: Path, settings: Settings, *, read_only: bool = False) -> SQLiteLedger:
    """A bank in a file of its own: a backup, or what becomes one."""
    from reasonbank.ledger.sqlite import SQLiteLedger

    return SQLiteLedger(path, read_only=read_only, half_life_days=settings.belief.half_life_days)


def own_files(bank: Path) -> list[Path]:
    """The files that belong to a bank, without its token; and its folder, if it is ours alone.

    Any other folder may hold more than the bank, and who may look into it is not ours to say.
    """
    real = Path(os.path.realpath(bank))
    found = [bank, *(Path(f"{real}{end}") for end in ("-wal", "-shm", "-journal"))]
    found += bank.parent.glob(f"{glob.escape(bank.name)}.*.index")
    found += [bank.with_name(f"{bank.name}{end}") for end in DERIVED]
    if bank == sqlite_path(default_url()):
        found.append(bank.parent)
    return [path for path in found if path.exists()]


def _postgres(url: str, settings: Settings, read_only: bool, clock: Callable[[], int]) -> Ledger:
    _must_be_installed("psycopg", "url", "postgresql", extra="postgres")
    from reasonbank.ledger.postgres import PostgresLedger

    ledger = PostgresLedger(
        url,
        read_only=read_only,
        half_life_days=settings.belief.half_life_days,
        clock=clock,
        files=_servers_folder(),
    )
    if ledger.beside is not None:
        private.tighten(own_files(ledger.beside))
    return ledger


def _servers_folder() -> Path | None:
    """Where this user keeps what belongs to banks on servers; None if that cannot be made."""
    folder = sqlite_path(default_url()).parent / "servers"
    try:
        private.make_folder(folder)
    except OSError:
        return None
    return folder


DERIVED = (
    ".embedding", ".renewing", ".following", ".chroma", ".replies", ".replies-journal", ".hooks",
)  # fmt: skip

LEDGERS: dict[str, Callable[[str, Settings, bool, Callable[[], int]], Ledger]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}
"""By the scheme of a bank's URL; one without a scheme is a path."""


def _tidy(bank: Path | None, model: str, index: Index) -> None:
    """Derived data that may hold what was forgotten since."""
    with suppress(Unreachable):  # Whoever forgets next tries it again.
        index.tidy()
    if bank is None:
        return
    _remove_indexes(bank, except_for=model)
    kept = _replies_path(bank)
    # Loaded only if there may be something to clear: it is slow to load.
    if kept.exists() or "reasonbank.llm.cache" in sys.modules:
        from reasonbank.llm.cache import DiskReplies, clear_memory

        clear_memory()
        replies = DiskReplies(kept, size=1, seconds=0)
        replies.clear()
        replies.close()


def sqlite_path(url: str) -> Path:
    """``sqlite:///relative`` or ``sqlite:////absolute``; a bare path will do as well."""
    url, _ = address.split(url)
    _, found, rest = url.partition("://")
    rest = rest.removeprefix("/") if found else url
    if url.startswith(("postgresql:", "postgres:")):  # Not shown: it may hold a password.
        raise InvalidSetting("url", "write it as postgresql://user:password@host/database")
    if not rest or "\0" in rest or rest.rpartition("/")[2] == ":memory:":
        # Elsewhere :memory: is a bank that is gone at the end; here, a file of that name.
        raise InvalidSetting("url", f"{url!r} names no file; use sqlite:///path/to/bank.db")
    try:
        path = Path(rest).expanduser().absolute()
        if path.is_dir():
            raise InvalidSetting("url", f"{path} is a directory; name a file in it")
    except (OSError, RuntimeError) as error:
        raise InvalidSetting("url", f"{url[:200]!r} is not a usable path: {error}") from None
    return path


def open_index(
    url: str, ledger: Ledger, embedder: Embedder, settings: Settings
) -> tuple[Index, tuple[str, ...]]:
    """The index that a bank's URL names, and what is to be known of it."""
    at = address.parsed(address.split(url)[1])
    usual = "pgvector" if ledger.engine[0] == "PostgreSQL" else "local"
    try:
        index = INDEXES[at.engine or usual](at, ledger, embedder, settings)
    except address.Unavailable as error:
        return local_index(ledger, embedder), (f"in the local index, because {error}",)
    return index, (f"in {index.name}",) if index.name else ()


def _local(at: Address, ledger: Ledger, embedder: Embedder, settings: Settings) -> Index:
    return local_index(ledger, embedder)


def _qdrant(at: Address, ledger: Ledger, embedder: Embedder, settings: Settings) -> Index:
    _must_be_installed("qdrant_client", "url", "an index in Qdrant", extra="qdrant")
    from reasonbank.index.engines import qdrant

    return qdrant(at, ledger, embedder, settings.index)


def _chroma(at: Address, ledger: Ledger, embedder: Embedder, settings: Settings) -> Index:
    if not at.server:
        _must_be_installed("chromadb", "url", "an index in a folder of Chroma", extra="chroma")
    from reasonbank.index.engines import chroma

    return chroma(at, ledger, embedder, settings.index)


def _pgvector(at: Address, ledger: Ledger, embedder: Embedder, settings: Settings) -> Index:
    """Also where none is named: then the local index takes its place if it cannot be had."""
    from reasonbank.index.engines import pgvector

    try:
        return pgvector(ledger, embedder, settings.index)
    except address.Unavailable as error:
        if at.engine:
            raise InvalidSetting("url", f"says ?index=pgvector, but {error}") from None
        raise


INDEXES: dict[str, Callable[[Address, Ledger, Embedder, Settings], Index]] = {
    "local": _local,
    "pgvector": _pgvector,
    "qdrant": _qdrant,
    "chroma": _chroma,
}
"""By what ``?index=`` in a bank's URL begins with."""


def local_index(ledger: Ledger, embedder: Embedder) -> Index:
    from reasonbank.index.local import LocalIndex

    path = None if ledger.beside is None else _index_path(ledger.beside, embedder.name)
    compatible = calibration_for(embedder.name).compatible
    # One that follows more models than before begins anew.
    model = " and ".join((f"{embedder.name} of {ledger.bank_id}", *compatible))
    index = LocalIndex(path, dimensions=embedder.dimensions, model=model)
    reading = ledger.read()
    # A backup was restored, or the vectors were dropped when another model took over.
    if index.position > reading.vector_position() or not reading.has_vectors(
        embedder.name, compatible
    ):
        usable = path is not None and _removed(path)
        index = LocalIndex(path if usable else None, dimensions=embedder.dimensions, model=model)
    return index


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _index_path(bank: Path, model: str) -> Path:
    return bank.with_name(f"{bank.name}.{model}.index")


def _remove_indexes(bank: Path, *, except_for: str) -> None:
    """Indexes of other models may hold what was forgotten since; they can be made anew."""
    for path in bank.parent.glob(f"{glob.escape(bank.name)}.*.index"):
        if path != _index_path(bank, except_for):
            _removed(path)


def embedder_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Embedder:
    embed = settings.embed
    if embed.model == "hashed":
        from reasonbank.embed.hashed import Hashed

        return Hashed()
    if embed.model == "onnx":
        from reasonbank.embed.onnx import ONNX

        return ONNX(Path(embed.folder).expanduser())
    if embed.model == "api":
        from reasonbank.embed.api import API

        return API(
            model=embed.api_model,
            base_url=embed.base_url,
            key_env=embed.key_env,
            dimensions=embed.dimensions,
            scrub=settings.scrub,
            environment=environment,
        )
    from reasonbank.embed.minilm import MiniLM

    return MiniLM(runtime=embed.runtime)


def quicken(store: Store) -> None:
    """For a process that lives long or has much to embed: take the time to load what is quick."""
    from reasonbank.embed.minilm import MiniLM

    if isinstance(embedder := store.indexing.embedder, MiniLM):
        embedder.quicken()


def model_of(
    settings: Settings,
    *,
    url: str | None = None,
    meters: ModelMeters | None = None,
    environment: Mapping[str, str] | None = None,
    replies: Replies | None = None,
) -> Model | None:
    """The language model that the settings name, in all its layers; ``None`` without one.

    ``url`` is the bank's, beside which replies are kept when llm.cache is disk; ``replies``
    are those of an open bank, or of an earlier model that is asked the same.
    The order of the layers is explained in ``reasonbank.llm``.
    """
    llm = settings.llm
    if llm.provider == "none":
        return None
    from reasonbank.llm.port import ModelMeters

    meters = meters or ModelMeters()
    if replies is None and llm.cache != "off":
        replies = _replies(settings, url)
    model = by_role(_adapter(settings, meters, environment), settings, meters, environment)
    return layered(model, settings, meters, replies)


def by_role(
    main: Model,
    settings: Settings,
    meters: ModelMeters,
    environment: Mapping[str, str] | None = None,
) -> Model:
    """``main``, and beside it the models that the settings name for single roles."""
    if not (own := own_roles(settings)):
        return main
    from reasonbank.llm.roles import ByRole

    return ByRole(main, {role: _adapter(each, meters, environment) for role, each in own.items()})


def own_roles(settings: Settings) -> dict[ModelRole, Settings]:
    """The roles that have a model of their own, each with settings in which it is the model."""
    found = {role: settings.llm_of(role) for role in ROLES}
    return {role: replace(settings, llm=llm) for role, llm in found.items() if llm != settings.llm}


def layered(
    model: Model, settings: Settings, meters: ModelMeters, replies: Replies | None
) -> Model:
    from reasonbank.llm.budget import Budgeted
    from reasonbank.llm.layers import Deadline, Limited, Preset, Repaired, Scrubbed
    from reasonbank.llm.tokens import counter

    llm = settings.llm
    model = Limited(model, concurrency=llm.concurrency, rate_per_minute=llm.rate_per_minute)
    model = Budgeted(
        model,
        budget=llm.budget_tokens,
        input_tokens=llm.input_tokens,
        count=counter(llm.tokenizer),
    )
    model = Repaired(model, meters=meters)
    model = Deadline(model, seconds=llm.deadline_seconds)
    if replies is not None:
        from reasonbank.llm.cache import Cached

        model = Cached(model, replies=replies, meters=meters, input_tokens=llm.input_tokens)
    if settings.scrub:
        model = Scrubbed(model)
    return Preset(
        model,
        temperature=llm.temperature if llm.temperature >= 0 else None,
        effort=cast("Effort", llm.effort) if llm.effort else None,
        max_tokens=llm.max_tokens,
    )


def model_for(store: Store) -> Model | None:
    """The model that works for a bank, whose statistics tell what it did."""
    meters = _meters_of(store)
    settings = store.settings
    if store.thinker is None:
        replies = _replies_of(store)
        model = model_of(settings, meters=meters, replies=replies)
    else:
        from reasonbank.llm.layers import Borrowed

        main = Borrowed(store.thinker, meters=meters)
        model = layered(by_role(main, settings, meters), settings, meters, None)
    if model is not None:
        store.model = meters
    return model


def capped(context: Context, model: Model) -> Model:
    """The model, for as long as the caller has something to spend."""
    if context.account is None:
        return model
    from reasonbank.llm.budget import Capped
    from reasonbank.llm.tokens import counter

    return Capped(model, context.account, count=counter(context.settings.llm.tokenizer))


def needed_model(store: Store) -> Model:
    """The same for who cannot do without."""
    if (model := model_for(store)) is None:
        raise InvalidSetting(
            "llm.provider",
            "is none, and solving needs a language model; set llm.provider and llm.model, e.g. "
            "REASONBANK_LLM_PROVIDER=ollama REASONBANK_LLM_MODEL=qwen3",
        )
    return model


def clients_model_for(store: Store) -> Model | None:
    """The model of whoever calls, if the settings leave the thinking to the calling agent.

    Its replies are not cached: the next client may have another model.
    """
    if store.settings.learn.reasoner != "agent":
        return None
    from reasonbank.llm.sampling import SamplingModel

    store.model = meters = _meters_of(store)
    return layered(SamplingModel(meters), store.settings, meters, None)


def _meters_of(store: Store) -> ModelMeters:
    from reasonbank.llm.port import ModelMeters

    return store.model if isinstance(store.model, ModelMeters) else ModelMeters()


def _adapter(
    settings: Settings, meters: ModelMeters, environment: Mapping[str, str] | None
) -> Model:
    provider, key = _provider(settings, environment)
    llm = settings.llm
    base_url = llm.base_url or provider.base_url
    if llm.provider == "anthropic":
        from reasonbank.llm.anthropic import AnthropicModel

        return AnthropicModel(
            model=llm.model, base_url=base_url, key=key, timeout=llm.timeout_seconds,
            retries=llm.retries, pause=llm.pause_seconds, meters=meters,
        )  # fmt: skip
    from reasonbank.llm.openai import OpenAIModel

    return OpenAIModel(
        model=llm.model,
        base_url=base_url,
        key=key,
        style=cast(Literal["responses", "chat"], style_of(settings)),
        output_limit=provider.output_limit,
        timeout=llm.timeout_seconds,
        retries=llm.retries,
        pause=llm.pause_seconds,
        meters=meters,
    )


def style_of(settings: Settings) -> str:
    """How the server is spoken to: messages, responses or chat."""
    from reasonbank.llm.http import PROVIDERS

    if settings.llm.provider == "anthropic":
        return "messages"
    if settings.llm.style != "auto":
        return settings.llm.style
    return PROVIDERS[settings.llm.provider].style


def _provider(
    settings: Settings, environment: Mapping[str, str] | None
) -> tuple[Provider, Key | None]:
    from reasonbank.llm.http import PROVIDERS, key_in

    llm = settings.llm
    client = "anthropic" if llm.provider == "anthropic" else "openai"
    _must_be_installed(client, "llm.provider", llm.provider)
    provider = PROVIDERS[llm.provider]
    environment = os.environ if environment is None else environment
    variable = llm.key_env or provider.key_env
    return provider, key_in(environment, variable, setting=f"llm.provider = {llm.provider}")


def _must_be_installed(client: str, setting: str, value: str, *, extra: str = "") -> None:
    from importlib.util import find_spec

    if find_spec(client) is None:
        told = f"{value} needs a package that is not installed; run: "
        raise InvalidSetting(setting, f"{told}pip install 'reasonbank[{extra or client}]'")


def _replies_of(store: Store) -> Replies | None:
    """What is kept in memory is kept for as long as the bank is open: each task has a model."""
    llm = store.settings.llm
    if llm.cache == "off" or llm.provider == "none":
        return None
    if llm.cache == "disk" and (beside := store.ledger.beside) is not None:
        from reasonbank.llm.cache import DiskReplies

        return DiskReplies(_replies_path(beside))
    if store.replies is None:
        from reasonbank.llm.cache import MemoryReplies

        store.replies = MemoryReplies()
    return cast("Replies", store.replies)


def _replies(settings: Settings, url: str | None) -> Replies:
    """Without a bank that is open."""
    from reasonbank.llm.cache import DiskReplies, MemoryReplies

    bank = url or settings.url or default_url()
    scheme, found, _ = bank.partition("://")
    if settings.llm.cache == "memory" or (found and scheme != "sqlite"):
        return MemoryReplies()
    return DiskReplies(_replies_path(sqlite_path(bank)))


def _replies_path(bank: Path) -> Path:
    return bank.with_name(f"{bank.name}.replies")


def check_model(settings: Settings, environment: Mapping[str, str] | None = None) -> None:
    """What a server asks before it starts: are the keys that its settings need there, and good?

    A missing or refused key is ``KeyRefused``. Settings that need no key ask nobody.
    """
    from reasonbank.llm.http import PROVIDERS, check_key, key_in

    environment = os.environ if environment is None else environment
    embed = settings.embed
    for each in (settings, *own_roles(settings).values()):
        llm = each.llm
        if llm.provider == "none":
            continue
        provider, key = _provider(each, environment)
        if key is not None:
            setting = f"llm.provider = {llm.provider}"
            check_key(key, llm.base_url or provider.base_url, provider=provider, setting=setting)
    if embed.model == "api":
        setting = "embed.model = api"
        _must_be_installed("openai", "embed.model", "api")
        key = key_in(environment, embed.key_env, setting=setting)
        if key is not None:
            check_key(key, embed.base_url, provider=PROVIDERS["openai-compatible"], setting=setting)


def model_status(settings: Settings) -> int | str:
    """What the model's server answers, or why it does not; a missing key is ``KeyRefused``."""
    from reasonbank.llm.http import status_of

    provider, key = _provider(settings, os.environ)
    return status_of(settings.llm.base_url or provider.base_url, provider=provider, key=key)
