"""Pictures of every view, light and dark, wide and narrow: docs/figures/page.

    python -m tests.web.pictures FOLDER [VIEW …]

FOLDER gets a bank that was lived in (``tests.web.lived_in``), unless it has one. The pictures in
the documentation were taken with Inter as the system's font, and made small by
``pngquant --ext .png --force 128``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.surfaces.http_server import Server, command, environment, serving
from tests.surfaces.joined_banks import Other, listen_at_a_free_port
from tests.web import lived_in
from tests.web.conftest import HERE, Tab, chromium, entrance

from reasonbank import Bank
from reasonbank.settings import load

PICTURES = Path(__file__).parents[2] / "docs/figures/page"
QUESTION = "connection pool exhausted, QueuePool limit overflow"
VIEWS = {
    "home": "/",
    "search": f"/search?q={QUESTION.replace(' ', '+')}",
    "nothing": "/search?q=apple+pay+merchant+domain+verification",
    "memory": "/memory/{memory}",
    "review": "/review",
    "learning": "/learning",
    "sessions": "/sessions",
    "work": "/work",
    "agents": "/agents",
    "peers": "/peers/{peer}",
    "settings": "/settings",
}
SHAPES = {"1440": {"width": 1440, "height": 900}, "400": {"width": 400, "height": 860}}
TALL = {"memory": 1280, "search": 1100, "learning": 1240}
"""Where the wide picture shows more than fits on a screen."""
OTHERS = {
    "ana-laptop": ("Read the operator's CRD before its chart", "Close the month in UTC"),
    "platform-team": ("Drain a node before its kernel is patched", "Pin the base image by digest",
                      "Rotate the signing key in two steps"),
}  # fmt: skip
TRUSTED = "ana-laptop"
WIRED = ("claude-code", "codex")
FOUND = (".claude", ".codex", ".gemini", ".cursor")
"""The folders of agents that somebody has here; the last two are not connected yet."""


def join_others(folder: Path, server: Server, *options: str) -> str:
    """Two banks that share what their team knows; the key of the one to look at."""

    def run(*arguments: str):
        code, told = command(server.folder, *options, *arguments)
        assert code == 0, told
        return told

    if not run("peer", "list"):
        for name, titles in OTHERS.items():
            other = Other(folder / "others" / name, name.partition("-")[0])
            listen_at_a_free_port(other.folder)
            for title in titles:
                other.record(title)
            invited = run("peer", "invite", "--name", name, "--no-wait")
            other.run("peer", "join", invited["invitation"], "--name", "payments")
        run("peer", "trust", TRUSTED)
        run("peer", "invite", "--name", "build-farm", "--no-wait")
    [key] = [peer["key"] for peer in run("peer", "list") if peer["state"] == "on probation"]
    return str(key)


def wire_agents(home: Path, *options: str) -> None:
    """Two of four agents, which ask for a first prompt."""
    for name in FOUND:
        (home / name).mkdir(exist_ok=True)
    code, told = command(home, *options, "install", *WIRED)
    assert code == 0, told
    asked = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": QUESTION,
             "cwd": str(home)}  # fmt: skip
    for agent in WIRED:
        subprocess.run(
            [sys.executable, "-m", "reasonbank.surfaces.cli", *options, "hook", "--agent", agent,
             "prompt"],
            env=environment(home), cwd=home, input=json.dumps(asked), text=True, check=True,
            capture_output=True,
        )  # fmt: skip


def take(folder: Path, wanted: list[str]) -> None:
    if not (folder / "bank.db").exists():
        lived_in.make(folder, load())
    url = f"sqlite:///{folder / 'bank.db'}"
    with Bank.open(url, workspace=folder / HERE) as bank:
        memory = bank.search("Find the leaked session before enlarging the pool")[0].memory.id
    PICTURES.mkdir(parents=True, exist_ok=True)
    place = folder / HERE
    listen_at_a_free_port(place, "--bank", url)
    wire_agents(place, "--bank", url)
    with (
        serving(
            place,
            "--bank",
            url,
            "--bus",
            REASONBANK_EMBED_MODEL=load().embed.model,
        ) as server,
        sync_playwright() as driver,
    ):
        peer = join_others(folder, server, "--bank", url)
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        door = browser.new_context()
        door.new_page().goto(entrance(server, "--bank", url))
        door.pages[0].wait_for_selector("main h1")
        known = door.storage_state()
        for name in wanted:
            for width, viewport in SHAPES.items():
                for theme in ("light", "dark"):
                    context = browser.new_context(
                        viewport=viewport, color_scheme=theme, storage_state=known
                    )
                    tab = Tab(context.new_page(), server.address)
                    page = tab.open(VIEWS[name].format(memory=memory, peer=peer))
                    if name == "search":
                        page.keyboard.press("e")
                    if width == "1440":
                        size = {**viewport, "height": TALL.get(name, viewport["height"])}
                        page.set_viewport_size(size)
                    # Charts are drawn at their width, and what memory is worth comes last.
                    page.wait_for_timeout(700)
                    page.screenshot(path=PICTURES / f"{name}-{width}-{theme}.png")
                    print(name, width, theme, tab.said or "")
                    context.close()
        browser.close()


if __name__ == "__main__":
    target, *views = sys.argv[1:]
    Path(target).mkdir(parents=True, exist_ok=True)
    take(Path(target), views or list(VIEWS))
