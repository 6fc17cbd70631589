"""A real server, a real browser, and a bank of ten thousand memories that was worked with."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.http_server import Server, command, serving
from tests.web import lived_in

from reasonbank import Settings
from reasonbank.settings import Embed

MEMORIES = 10_000
AXE = Path(__file__).parent / "axe-core-4.14.0.min.js.gz"
"""As it came from the npm registry; its licence, MPL-2.0, lies beside it."""
HERE = "payments-api"
OWNER = ""


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    playwright.expect.set_options(timeout=20_000)
    with playwright.sync_playwright() as driver:
        # As root, as in a container, Chromium has no sandbox of its own.
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once for all processes of a test run."""
    run = tmp_path_factory.getbasetemp()
    # The folder of one process lies in that of its run.
    shared = (run.parent if "PYTEST_XDIST_WORKER" in os.environ else run) / "lived-in"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "ids.json").exists():
            settings = Settings(embed=Embed(model="hashed"))
            ids = lived_in.make(shared, settings, more=MEMORIES)
            (shared / "ids.json").write_text(json.dumps(ids))
    return shared


@dataclass
class World:
    """A server over a copy of the bank that was lived in; its projects are where they were."""

    folder: Path
    url: str
    server: Server
    ids: dict[str, str]
    tokens: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, Any] = field(default_factory=dict)

    def run(self, *arguments: str):
        """The command, beside the server."""
        code, told = command(self.folder / HERE, "--bank", self.url, *arguments)
        assert code == 0, told
        return told

    def token(self, scope: str, *arguments: str) -> str:
        key = f"{scope} {arguments}"
        if key not in self.tokens:
            made = self.run("token", "create", "--scope", scope, *arguments)
            self.tokens[key] = made["token"]
        return self.tokens[key]


@pytest.fixture(scope="session")
def world(template: Path, browser) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        for file in template.glob("bank.db*"):
            if file.is_file():
                shutil.copy(file, folder)
            else:
                shutil.copytree(file, Path(folder) / file.name)
        url = f"sqlite:///{Path(folder) / 'bank.db'}"
        ids = json.loads((template / "ids.json").read_text())
        with serving(template / HERE, "--bank", url, REASONBANK_SERVER_RATE=1000) as server:
            yield World(template, url, server, ids)


class Tab:
    """A page of the browser that remembers whatever its console said."""

    def __init__(self, page, address: str) -> None:
        self.page = page
        self.address = address
        self.said: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        page.set_default_timeout(20_000)

    def _heard(self, message) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.text} ({message.location.get('url')})")

    def open(self, path: str = "/"):
        self.page.goto(self.address + path)
        self.settled()
        return self.page

    def entered(self) -> None:
        self.page.wait_for_selector("#nav li")  # The door has a heading, too.
        self.settled()

    def settled(self) -> None:
        self.page.wait_for_selector("main h1, main .empty h2")
        self.page.wait_for_selector(".slow", state="detached")


@pytest.fixture
def tab(browser, world: World) -> Iterator[Callable[..., Tab]]:
    """A tab for a token; without one, for the owner, who came by a code. In the end no console
    may have said anything."""
    contexts, tabs = [], []

    def make(token: str = OWNER, **options: Any) -> Tab:
        known = world.cookies.get(token)
        wide = {"viewport": {"width": 1440, "height": 900}, "storage_state": known}
        context = browser.new_context(**{**wide, **options})
        contexts.append(context)
        made = Tab(context.new_page(), world.server.address)
        tabs.append(made)
        if known is None:
            come_in(made, world, token)
            world.cookies[token] = context.storage_state()
        return made

    yield make
    said = [line for each in tabs for line in each.said]
    for context in contexts:
        context.close()
    assert said == []


def entrance(server: Server, *options: str) -> str:
    """The address that lets its owner in, as `reasonbank open` prints it."""
    code, told = command(server.folder, *options, "open", "--port", str(server.port))
    assert code == 0, told
    return told["page"]


def come_in(tab: Tab, world: World, token: str) -> None:
    if token == OWNER:
        tab.page.goto(entrance(world.server, "--bank", world.url))
    else:
        tab.page.goto(tab.address)
        tab.page.get_by_label("paste a token").fill(token)
        tab.page.get_by_role("button", name="Sign in").click()
    tab.entered()


@pytest.fixture(scope="session")
def axe() -> str:
    return gzip.decompress(AXE.read_bytes()).decode()
