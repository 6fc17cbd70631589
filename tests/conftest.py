"""Banks for tests: real parts, in a temporary directory, with a clock that stands still."""

from __future__ import annotations

import difflib
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reasonbank import Bank, Settings
from reasonbank.embed.hashed import Hashed
from reasonbank.errors import EmbeddingError
from reasonbank.model import Principal, to_micros
from reasonbank.settings import Embed
from reasonbank.surfaces.agent_shell import MARKS
from tests.engines import postgres

pytest.register_assert_rewrite("reasonbank.testing")

# What a shell starts in the background ignores Control-C, and so does all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DAY = 86_400_000_000
HASHED = Settings(embed=Embed(model="hashed"))
GOLDEN = Path(__file__).parent / "golden"


class Clock:
    """Stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = to_micros(datetime(2026, 3, 1, 12, tzinfo=UTC))

    def __call__(self) -> int:
        return self.now

    def advance(self, *, days: float) -> None:
        self.now += int(days * DAY)


class Fragile(Hashed):
    """An embedder that fails when it is told to; it stands for a sound one otherwise."""

    semantic = True

    def __init__(self, name: str = Hashed.name) -> None:
        self.name = name
        self.broken = False

    def embed(self, texts: Any) -> Any:
        if self.broken:
            raise EmbeddingError("the model is on holiday")
        return super().embed(texts)


class Opener:
    """Opens banks and closes all of them in the end; all are one store unless named."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.opened: list[Bank] = []

    def url(self, name: str = "bank") -> str:
        return f"sqlite:///{self.folder / name}.db"

    def project(self, name: str = "project") -> Path:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path

    def __call__(
        self,
        name: str = "bank",
        *,
        settings: Settings = HASHED,
        workspace: str | os.PathLike[str] | None = None,
        principal: Principal = Principal.PERSON,
        **options: Any,
    ) -> Bank:
        """By default a person's: what they write needs nobody to confirm it."""
        bank = Bank.open(
            self.url(name),
            workspace=workspace or self.project(),
            settings=settings,
            clock=self.clock,
            principal=principal,
            **options,
        )
        self.opened.append(bank)
        return bank

    def with_embedder(
        self, embedder: Any, name: str = "bank", *, settings: Settings = HASHED
    ) -> Bank:
        return self(name, settings=settings, embedder=embedder)


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test may read or write the settings and the bank of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("REASONBANK_")]:
            if not name.startswith(("REASONBANK_TEST_", "REASONBANK_DATA")):
                patch.delenv(name)
        for name in (*MARKS, "AGENT"):  # Whoever runs the tests may be an agent: the tests are not.
            patch.delenv(name, raising=False)
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(home))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Write tests/golden anew.")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Holds a text to the file of tests/golden that has its name."""

    def same(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            return
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        if text != before:
            changed = difflib.unified_diff(
                before.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm=""
            )
            pytest.fail(
                "\n".join(changed)
                + "\n\nIf this is meant: python -m pytest tests/test_golden.py --update-golden",
                pytrace=False,
            )

    return same


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_bank(tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    opener = Opener(tmp_path, clock)
    yield opener
    for bank in opener.opened:
        bank.close()


@pytest.fixture
def bank(open_bank: Opener) -> Bank:
    """Knows meaning: the real embedding model."""
    return open_bank(settings=Settings())


@pytest.fixture
def plain_bank(open_bank: Opener) -> Bank:
    """Cheaper, for what does not depend on meaning."""
    return open_bank()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """One for all tests of this process. Without one they are skipped, but never in CI."""
    if (obstacle := postgres.obstacle()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no PostgreSQL: {obstacle}")
        pytest.skip(f"no PostgreSQL: {obstacle}")
    server = postgres.Server()
    yield server
    server.close()


@pytest.fixture
def new_postgres(postgres_server: postgres.Server) -> Iterator[Callable[[], str]]:
    """Each call makes an empty database, and gives its URL; the test's end removes them."""
    made: list[str] = []

    def new() -> str:
        made.append(postgres_server.new_database())
        return made[-1]

    yield new
    for url in made:
        postgres_server.drop(url)


@pytest.fixture
def postgres_url(new_postgres: Callable[[], str]) -> str:
    return new_postgres()
