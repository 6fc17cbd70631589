"""Writes tests/mutants.md from what `mutmut run` left: `python -m tools.mutants`.

The reasons why a mutant may live are written into that page by hand and kept as long as the
mutant is the same. Fails when a room kills too few or a survivor has no reason.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MUTANTS = ROOT / "mutants" / "src" / "reasonbank"
PAGE = ROOT / "tests" / "mutants.md"
FLOOR = 85.0
LIVED = (0, 5, 33)  # The last two: there was no test.
ROOMS = ("fields.py", "ledger/events.py", "proof", "search", "trust")
HEAD = """# Mutants

`make mutants` changes the rooms that need no disk, clock or network, one small thing at a time,
and counts the changes that their tests notice; one that never ends is noticed too. It sees the
bodies of functions: not constants, defaults of dataclasses, nor what is decorated.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    function: str
    was: str
    became: str


def main() -> int:
    reasons = known(PAGE.read_text("utf-8")) if PAGE.is_file() else {}
    lines = [HEAD, "| room | mutants | killed | survived | killed, % |", "|---|---|---|---|---|"]
    bad = []
    living: list[Survivor] = []
    for room in ROOMS:
        ends = [end for file in files(room) for end in codes(file).values()]
        if not ends:
            continue
        if None in ends:
            bad.append(f"{room}: {ends.count(None)} mutants were not tried")
        left = sum(end in LIVED for end in ends)
        share = 100 * (1 - left / len(ends))
        lines.append(f"| {room} | {len(ends)} | {len(ends) - left} | {left} | {share:.1f} |")
        if share < FLOOR:
            bad.append(f"{room}: {share:.1f} % killed, {FLOOR:g} % are asked for")
        living += (each for file in files(room) for each in survivors(file))
    lines += [
        "",
        "## Survivors",
        "",
        "| function | was | became | why it lives |",
        "|---|---|---|---|",
    ]
    for each in dict.fromkeys(living):
        reason = reasons.get(each, "?")
        lines.append(f"| {each.function} | {each.was} | {each.became} | {reason} |")
        if reason == "?":
            bad.append(f"{each.function}: {each.became} lives, and nobody says why")
    PAGE.write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join([*lines[1:], "", *bad]))
    return 1 if bad else 0


def files(room: str) -> list[Path]:
    place = MUTANTS / room
    found = sorted(place.glob("*.py")) if place.is_dir() else [place]
    return [file for file in found if file.with_name(file.name + ".spans").is_file()]


def codes(file: Path) -> dict[str, int | None]:
    """How the tests of each mutant ended."""
    meta = json.loads(file.with_name(file.name + ".meta").read_text("utf-8"))
    found: dict[str, int | None] = meta["exit_code_by_key"]
    return found


def survivors(file: Path) -> Iterator[Survivor]:
    text = re.sub(r"\w*__mutmut_\w+", "", file.read_text("utf-8")).splitlines()
    spans = json.loads(file.with_name(file.name + ".spans").read_text("utf-8"))["spans"]
    for key, end in codes(file).items():
        if end not in LIVED:
            continue
        name = key.rpartition(".")[2]
        original = re.sub(r"_\d+$", "_orig", name)
        old, new = (text[spans[one][0] : spans[one][1]] for one in (original, name))
        was, became = changed(old, new)
        plain = re.sub(r"__mutmut_orig$", "", original).removeprefix("x_").strip("xǁ")
        yield Survivor(function=f"{file.stem}.{plain.replace('ǁ', '.')}", was=was, became=became)


def changed(old: list[str], new: list[str]) -> tuple[str, str]:
    lines = list(difflib.unified_diff(old, new, n=0, lineterm=""))[3:]
    was = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    became = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return code(was), code(became)


def code(text: str) -> str:
    return f"`{text.replace('|', '¦')}`"


def known(page: str) -> dict[Survivor, str]:
    rows = re.findall(r"^\| (\S+) \| (`.*`) \| (`.*`) \| (.*) \|$", page, re.MULTILINE)
    return {
        Survivor(function=function, was=was, became=became): reason
        for function, was, became, reason in rows
    }


if __name__ == "__main__":
    sys.exit(main())
