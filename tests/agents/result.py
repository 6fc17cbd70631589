"""`python -m tests.agents.result [pytest options]`: run the tests, and write tests/agents.md."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.agents.box import namespace
from tests.agents.programs import PROGRAMS

HERE = Path(__file__).parent
RESULT = HERE.with_suffix(".md")
SIGNS = {"passed": "yes", "failed": "**no**", "skipped": "skipped"}


class Results:
    """What came of each promise with each agent."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, str]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            name, _, agent = report.location[2].partition("[")
            promise = name.rpartition(".")[2].removeprefix("test_").replace("_", " ")
            for program in PROGRAMS:
                if program.name in agent and self.of[promise].get(program.name) != SIGNS["failed"]:
                    self.of[promise][program.name] = SIGNS[report.outcome]


def table(results: Results) -> str:
    alone = "without a network" if namespace() else "with the machine's network: it proves less"
    lines = [
        "# What was seen with the real agents",
        "",
        f"Written by `make agents-all`: the programs themselves, {alone}, each with a home of its",
        "own and a scripted model in the place of theirs.",
        "",
        "| agent | package |",
        "|---|---|",
        *(f"| {each.name} | `{each.package}@{each.version}` |" for each in PROGRAMS),
        "",
        "| | " + " | ".join(each.name for each in PROGRAMS) + " |",
        "|---" * (len(PROGRAMS) + 1) + "|",
    ]
    for promise, by_agent in sorted(results.of.items()):
        cells = (by_agent.get(each.name, "–") for each in PROGRAMS)
        lines.append(f"| {promise} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    results = Results()
    code = pytest.main(["-rs", str(HERE), *sys.argv[1:]], plugins=[results])
    RESULT.write_text(table(results))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
