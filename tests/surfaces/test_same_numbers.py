"""Statistics through every real way in: the same numbers, and a reset that all of them see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent.player import Player
from tests.agent.served import served
from tests.proof.test_every_door import ASKED, an_agent
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, command, serving

from reasonbank import Bank, Memory, Settings
from reasonbank.fields import plain
from reasonbank.settings import Embed

SETTINGS = Settings(embed=Embed(model="hashed"))
QUIET = {f"REASONBANK_SCHEDULE_{kind}_HOURS": 0 for kind in ("CONSOLIDATE", "MAINTAIN", "PROMOTE")}


def steady(numbers: Any) -> dict[str, Any]:
    """Without what is each process's own, and what passes by itself."""
    return {k: v for k, v in plain(numbers).items() if k not in ("process", "queue")}


@requirement("OBS-1")
@requirement("OBS-2")
def test_every_way_in_gives_the_same_numbers_and_resets_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bank.db"
    place = ("--bank", url, "--workspace", tmp_path)
    with Bank.open(url, workspace=tmp_path, settings=SETTINGS) as bank:
        bank.record(Memory.from_json(LESSON))
        for query in (ASKED, ASKED, "sourdough"):
            bank.search(query)
    with served(Player("abc", scores={"a": 0.9})) as model:
        code, solved = command(tmp_path, *place, "solve", "bake", "--mode", "off", **model)
    assert code == 0, solved
    with (
        Bank.open(url, workspace=tmp_path, settings=SETTINGS) as bank,
        serving(tmp_path, *place, **QUIET) as server,
        an_agent(url, tmp_path) as tools,
    ):

        def by_command(*words: str) -> Any:
            return command(tmp_path, *place, "stats", *words)[1]

        def by_web(method: str = "GET") -> Any:
            return server.ask(method, "statistics", workspace=tmp_path).json()

        ways = {
            "library": bank.statistics, "cli": by_command, "http": by_web,
            "mcp": lambda: tools.call("get_statistics"),
        }  # fmt: skip

        def same() -> dict[str, Any]:
            told = {name: steady(ask()) for name, ask in ways.items()}
            assert all(one == told["library"] for one in told.values()), told
            return told["library"]

        numbers = same()
        assert numbers["searches"]["answered"] == 4 and numbers["query_cache"]["hits"] == 1
        assert numbers["model"]["calls"] == 4 and numbers["model"]["cache_hit_rate"] == 0.0
        assert numbers["success_rate"] == 1.0 and numbers["growth"]["day"] == 1
        assert numbers["latency"]["retrieval"]["p99_ms"] > 0
        resets = (
            bank.reset_statistics,
            lambda: by_command("--reset"),
            lambda: by_web("DELETE"),
            lambda: tools.call("get_statistics", reset=True),
        )
        for count, reset in enumerate(resets):
            assert same()["searches"]["answered"] > 0, count
            reset()
            assert same()["searches"]["answered"] == 0, count
            assert same()["model"] is None, count
            bank.search(ASKED)
