"""What is learned, scrubbed and flagged without any model.

    python -m bench.rules

Lessons are measured on sessions that people labelled (tests/learn/labelled_sessions.py) and on
real ones; secrets on made-up samples and on ordinary text; suspicion on poisoned memories.
Public data is read from ``$REASONBANK_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from tests.learn import transcript_writers as writers
from tests.learn.labelled_sessions import SESSIONS
from tests.safety.secrets_made_up import samples

from bench import tables
from bench.retrieval_sets import folder
from bench.tables import Table
from reasonbank.learn.outcome import verdict
from reasonbank.learn.rules.rules import Finding, findings
from reasonbank.learn.session import Command, Edit, Entry, Session, Turn, numbered
from reasonbank.learn.transcripts import claude_code, codex
from reasonbank.safety.prompt_injection import suspicions
from reasonbank.safety.scrub import KINDS, clean_memory, scrub
from reasonbank.testing import a_memory

FORMATS = {
    "Claude Code": (writers.claude_code, claude_code.read),
    "Codex": (writers.codex, codex.read),
}


def share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} ({part:,} of {whole:,})" if whole else "–"


def learning(data: Path | None) -> Table:
    table = Table(
        "rules",
        "Lessons by rules alone",
        ("sessions", "number", "precision", "coverage", "wrongly quiet sessions"),
    )
    for name, cases in SESSIONS.items():
        for agent, (write, read) in FORMATS.items():
            right = wrong = unanswered = quiet = 0
            for title, (steps, labels) in cases.items():
                left = list(labels)
                found = findings(read(write(title, steps)))
                for lesson in found:
                    fits = _fitting(lesson, left)
                    left = [label for label in left if label not in fits]
                    right, wrong = right + bool(fits), wrong + (not fits)
                unanswered += len(left)
                quiet += bool(labels) and not found
            table.add(f"labelled, {name}, {agent}", len(cases), share(right, right + wrong),
                      share(right, right + unanswered), quiet)  # fmt: skip
    table.notes.append(
        "Written and labelled by us, first and second before the rules were finished; no rule was "
        "changed for those held back. On the second, before the rules were improved on it: "
        "precision 0.83, coverage 0.53."
    )
    if data is not None:
        _who_and_when(table, data)
    return table


def _fitting(lesson: Finding, labels: list[tuple[str, str]]) -> list[tuple[str, str]]:
    told = json.dumps(lesson.memory.to_json(), ensure_ascii=False)
    return [label for label in labels if label[0] == lesson.rule and label[1] in told]


def _who_and_when(table: Table, data: Path) -> None:
    """Real runs of agents that write and run programs; all of them failed their task."""
    sessions = list(_programs(data))
    # What an agent wrote about its mistakes is no lesson of a program; see bench.lessons for those.
    found = [
        (session, lesson)
        for session in sessions
        for lesson in findings(session)
        if lesson.rule != "reflection"
    ]
    reworked = sum(_same_program(session, lesson) for session, lesson in found)
    ran = sum(c.exit_code not in (0, None) for s in sessions for c in s.commands())
    table.add("Who&When, programs that agents ran", len(sessions), share(reworked, len(found)),
              f"{len(found)} lessons of {ran} failures", "–")  # fmt: skip
    wrong = sum(verdict(session).outcome is not None for session in sessions)
    table.notes.append(
        "Who&When: right if the program that passed is the one that failed, reworked (similarity "
        "0.35 or more), or installs what is missing; nobody labelled the lessons. No session has "
        f"a test, so none may get a verdict without a judge: {wrong} of {len(sessions)} do."
    )


def _programs(data: Path) -> Iterator[Session]:
    for path in sorted((data / "who_and_when").glob("*/*/*.json")):
        run = json.loads(path.read_text("utf-8"))
        entries: list[Entry] = [Turn(number=0, by_user=True, text=run["question"])]
        said = ""
        for message in run["history"]:
            text = message["content"]
            ended = re.match(r"exitcode: (\d+)[^\n]*\n(?:Code output:)?", text)
            if ended is None:
                entries.append(Turn(number=0, by_user=False, text=text))
                said = text
                continue
            if code := re.findall(r"```(?:python|sh|bash)?\n(.*?)```", said, re.DOTALL):
                entries.append(Edit(number=0, path="program.py", change=code[-1]))
            output, exit_code = text[ended.end() :], int(ended[1])
            run_it = "python program.py"
            entries.append(Command(number=0, command=run_it, output=output, exit_code=exit_code))
        yield Session(id=path.stem, agent="who_and_when", entries=numbered(entries))


def _same_program(session: Session, lesson: Finding) -> bool:
    edits = [entry for entry in session.entries if isinstance(entry, Edit)]
    before = [e.change for e in edits if e.number < lesson.first][-1:]
    after = [e.change for e in edits if e.number < lesson.last][-1:]
    if not before or not after:
        return False
    alike = SequenceMatcher(None, before[0], after[0]).ratio() >= 0.35
    return alike or "pip install" in after[0]


def secrets(data: Path | None) -> Table:
    table = Table("secrets", "Secrets", ("text", "size", "scrubbed"))
    found = [bool(scrub(f"I ran it with {text} and it worked").found) for _, text in samples(20)]
    kinds = len(KINDS)
    table.add(f"made-up secrets of {kinds} kinds", f"{len(found):,}", share(sum(found), len(found)))
    for name, texts in _ordinary(data):
        size = sum(map(len, texts)) / 1e6
        hits = sum(scrub(text).found != {} for text in texts)
        table.add(f"ordinary text: {name}", f"{len(texts):,} texts, {size:.1f} MB", hits)
    memory = a_memory(content="Wait for the event rather than sleeping, since CI is slow. " * 15)
    speed = _per_second(lambda: clean_memory(memory), 2000)
    prose = "Wait for the event rather than sleeping, since the machine may be busy. " * 14_000
    table.notes.append(
        f"CPU time: a memory of 1 kB takes {1e6 / speed:.0f} µs; 1 MB of prose goes at "
        f"{_per_second(lambda: scrub(prose), 5):.0f} MB/s, 1 MB of base64 at "
        f"{_per_second(lambda: scrub(_base64()), 3):.0f} MB/s."
    )
    return table


def _base64() -> str:
    import base64
    import random

    return base64.b64encode(random.Random(0).randbytes(750_000)).decode()


def _per_second(work: Callable[[], Any], times: int) -> float:
    work()
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        for _ in range(times):
            work()
        best = max(best, times / (time.process_time() - start))
    return best


def _ordinary(data: Path | None) -> Iterable[tuple[str, list[str]]]:
    here = Path(__file__).parents[1]
    yield "our documents", [p.read_text("utf-8") for p in (here / "docs").rglob("*.md")]
    if data is None:
        return
    bash = data / "nl2bash"
    yield "NL2Bash", [line for name in ("all.nl", "all.cm")
                      for line in (bash / name).read_text("utf-8").splitlines()]  # fmt: skip
    talks = json.loads((data / "locomo/locomo10.json").read_text("utf-8"))
    yield "LoCoMo", [turn["text"] for talk in talks for key, turns in talk["conversation"].items()
                     if key.startswith("session") and isinstance(turns, list)
                     for turn in turns]  # fmt: skip
    yield "MetaTool", (data / "metatool/all_clean_data.csv").read_text("utf-8").splitlines()
    runs = (data / "who_and_when").glob("*/*/*.json")
    yield "Who&When", [message["content"] for path in runs
                       for message in json.loads(path.read_text("utf-8"))["history"]]  # fmt: skip


def suspicion(data: Path) -> Table:
    table = Table(
        "suspicion",
        "Text that poses as an instruction",
        ("set", "flagged, tuned on", "flagged, aside"),
    )
    for name, tuned, aside in _hostile(data):
        table.add(name, _flagged(tuned), _flagged(aside))
    for name, texts in (*_ordinary(data), *_lessons()):
        those = list(texts)
        table.add(f"ordinary text: {name}", _flagged(those[::2]), _flagged(those[1::2]))
    memory = "Wait for the event rather than sleeping, since CI is slow. " * 17
    speed = _per_second(lambda: suspicions(memory), 300)
    table.notes += [
        "memshield: tuned on its train part, aside is its validation part. Others: every second "
        "row was looked at while the signs were written, of the rest only the count. Rows of one "
        "set share forms: what strangers write is recognised less often than the rows aside.",
        "Not recognised by design: false or bad advice in ordinary words (T3, T4, T6, T7, T9, most "
        "of T8, MemoryGraft) and plain questions (half of BIPIA's texts). Provenance has to hold "
        "these back.",
        f"CPU time: a memory of 1 kB takes {1e6 / speed:.0f} µs, once for each revision.",
    ]  # fmt: skip
    return table


def _hostile(data: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Name, what was looked at, what was not."""
    train, validation = (_memshield(data, part) for part in ("train", "validation"))
    for attack in sorted({row["attack_type"] for row in train}, key=_number):
        label = "clean" if attack == "none" else attack.replace("_", " ")
        tuned, aside = ([row["content"] for row in rows if row["attack_type"] == attack]
                        for rows in (train, validation))  # fmt: skip
        yield f"memshield: {label}", tuned, aside
    place = data / "security"
    for kind in ("text", "code"):
        attacks = _json(place / f"bipia/{kind}_attack_train.json")
        texts = [text for texts in attacks.values() for text in texts]
        yield f"BIPIA: {kind}", texts[::2], texts[1::2]
    bench = place / "agent_threat_bench"
    mails = [(mail["body"], number in case["attack_email_indices"])
             for case in _json(bench / "autonomy_hijack.json")
             for number, mail in enumerate(case["inbox"], 1)]  # fmt: skip
    for kind, wanted in (("hostile", True), ("other", False)):
        tuned, aside = ([text for text, bad in half if bad is wanted]
                        for half in (mails[::2], mails[1::2]))  # fmt: skip
        yield f"Agent Threat Bench: {kind} mails", tuned, aside
    stores = [case["memory_store"] for case in _json(bench / "memory_poison.json")]
    texts = [text for store in stores for text in store.values()]
    label = f"memories of {len(stores)} stores, a few of them hostile"
    yield f"Agent Threat Bench: {label}", texts[::2], texts[1::2]
    seeds = _json(place / "memorygraft/experience_seeds.json")
    for name, found in seeds.items():
        if isinstance(found, list):
            texts = [str(row) for row in found]
            yield f"MemoryGraft: {name.replace('_', ' ')}", texts[::2], texts[1::2]


def _lessons() -> Iterator[tuple[str, list[str]]]:
    """Our own lessons, which give orders too: "never run", "always pin", "ignore the cache"."""
    asked = Path(__file__).parent / "asked"
    rows = [json.loads(line) for path in sorted(asked.glob("*.jsonl"))
            for line in path.read_text("utf-8").splitlines()]  # fmt: skip
    yield "lessons of bench/asked", [text for row in rows for text in _told(row)]


def _told(row: Any) -> Iterator[str]:
    if isinstance(row, dict) and "content" in row:
        yield "\n\n".join(str(row.get(part, "")) for part in ("title", "description", "content"))
    elif isinstance(row, dict | list):
        for part in row.values() if isinstance(row, dict) else row:
            yield from _told(part)


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _memshield(data: Path, part: str) -> list[dict[str, str]]:
    lines = (data / f"security/memshield/{part}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _number(attack: str) -> int:
    return int(found[1]) if (found := re.match(r"T(\d+)", attack)) else 0


def _flagged(texts: Iterable[str]) -> str:
    flags = [bool(suspicions(text)) for text in texts]
    return f"{sum(flags):,} of {len(flags):,}"


def main() -> int:
    data = folder()
    if data is None:
        print("no data at $REASONBANK_DATA or ../shared/data: only what is in the repository")
    made = [learning(data), secrets(data)] + ([suspicion(data)] if data is not None else [])
    for table in made:
        tables.show(table)
        tables.keep("rules", table)
    tables.rewrite_document()
    return 0


if __name__ == "__main__":
    sys.exit(main())
