"""What ReasonBank adds to what a coding agent sends its model, in characters.

    python -m bench.agents [AGENT...]

The real programs (`make agents` or `make agents-all`), with a scripted model: one session without
ReasonBank, one as `reasonbank install` wires it with an empty bank, one with memories that fit. The
first request is compared as it goes over the wire; what a hook or an answer of `memory_search` says
is compared with the text of the memories in it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.agents.box import Box, Run
from tests.agents.calls import Step, memory
from tests.agents.programs import PROGRAMS, Program

from bench import tables
from bench.tables import Table

FIRST, SHARE = 4_000, 1.3
PROMPT = "The upload of a large file breaks off half-way. Make it reliable."
LESSONS = (
    ("Resume uploads where they broke off", "When an upload of a large file breaks off half-way",
     "The server keeps what it got for an hour. Ask it with HEAD on the upload's address how far "
     "it got (Upload-Offset), and send the rest from there with PATCH; start anew only when it "
     "answers 404. Wait one second before the first try and twice as long before each next one, "
     "at most five times. `client.upload` did not do this until 2.3, and sent the whole file "
     "again, which the proxy closed after a minute each time."),
    ("Check the sum after an upload", "When an upload seems whole after it broke off half-way",
     "A file may have the right length and still be wrong, if two tries overlapped. Compare the "
     "server's checksum (GET on the address with ?sum=sha256) with one's own before the local "
     "copy is deleted or the record is marked as done; tests/upload_test.py has a server that "
     "breaks off on purpose, use it. Where the sums differ, delete the upload and begin again: "
     "repairing a part of it has never worked."),
    ("Do not raise the time limit", "When an upload of a large file breaks off half-way",
     "A longer time limit of the client only hides it: the proxy in front closes every connection "
     "that is silent for sixty seconds, whatever the client waits for. What helped was to send in "
     "parts of 8 MB, so that none takes longer, and to let the server answer each part. The limit "
     "of the proxy itself is set by the operators, for all services alike, and they will not "
     "change it for one of them."),
)  # fmt: skip


def lessons(box: Box) -> int:
    """Store them; the characters of their text."""
    for title, when, content in LESSONS:
        box.reasonbank(
            "record", "--title", title, "--description", when, "--content", content,
            "--outcome", "success",
        )  # fmt: skip
    return sum(len(part) for lesson in LESSONS for part in lesson)


def session(program: Program, *, wired: bool, known: bool = False) -> tuple[Run, int]:
    # Names of one length: a path that an agent repeats must not count.
    # A server of the agent may still be saying goodbye.
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        box = Box(program, Path(folder) / "run")
        box.project()
        if wired:
            box.reasonbank("install", program.name)
        size = lessons(box) if known else 0
        steps = [
            Step("I search.", [memory("search", query=PROMPT)] if wired else []),
            Step("Done."),
        ]
        run = box.run(PROMPT, steps)
        if run.code != 0 or not run.requests:
            raise SystemExit(f"{program.name}: {run.err[-2000:]}")
        return run, size


def size(request: dict[str, Any]) -> int:
    return len(json.dumps(request, ensure_ascii=False))


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def answer(run: Run) -> int:
    """Characters of what `memory_search` answered, as the model reads it."""
    seen = set(texts(run.requests[0]))
    told = [text for text in texts(run.requests[1]) if text not in seen and "tokens_used" in text]
    return max(map(len, told), default=0)


def shown(run: Run) -> str:
    return "yes" if run.offers("memory_search") else "after a search"


def measured(program: Program, table: Table) -> None:
    without, _ = session(program, wired=False)
    empty, _ = session(program, wired=True)
    full, told = session(program, wired=True, known=True)
    first = size(empty.requests[0]) - size(without.requests[0])
    hook = size(full.requests[0]) - size(empty.requests[0])
    found = answer(full)

    def share(characters: int) -> str:
        return f"{characters:,} ({characters / told:.2f} ×)" if characters > 0 else "–"

    within = first <= FIRST and max(hook, found) <= SHARE * told
    table.add(
        program.name,
        shown(empty),
        f"{first:,}",
        share(hook),
        share(found),
        "yes" if within else "NO",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT")
    names = parser.parse_args().agents
    table = Table(
        name="agents",
        title="Characters that ReasonBank adds to what an agent sends its model",
        columns=(
            "agent", "tools in the first request", "first request",
            "memories at a prompt", "an answer of memory_search", "reached",
        ),
        notes=[
            f"Targets: ≤ {FIRST:,} in the first request, ≤ {SHARE} × the text of the memories.",
            "In brackets: how many times the text of the memories (title, when, content).",
            "– : nothing was said, or the agent's model did not get to read it.",
        ],
    )  # fmt: skip
    for program in PROGRAMS:
        if program.path.exists() and (not names or program.name in names):
            measured(program, table)
        else:
            table.notes.append(f"{program.name} was not measured: not installed, or not asked for.")
    tables.show(table)
    tables.keep("agents", table)


if __name__ == "__main__":
    main()
