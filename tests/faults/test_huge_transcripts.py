"""A transcript that is larger than the memory it may take (`make soak`: 500 MB)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fault_tools import keep_count, scaled
from tests.learn import transcript_writers as writers
from tests.learn.transcript_writers import A, C, E, U

MOST_MEMORY = 150_000_000
"""Of the whole process, in bytes."""
READ = """
import json, re, sys
from pathlib import Path
from reasonbank.learn.transcripts import files
from reasonbank.store.queue import Transcript
session, _ = files.session_at(Transcript(agent="", session="", path=sys.argv[1]))
# Not getrusage: to that, the memory of whoever started this counts too.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(json.dumps([int(peak) * 1024, len(session.entries), session.left_out]))
"""


def write(path, size):
    """A session that never ends: outputs, edits, failures; and a line that is one picture."""
    noise = "lorem ipsum dolor sit amet 0123456789 " * 600
    picture = json.dumps({"type": "user", "picture": "y" * 50_000_000})
    with path.open("w") as file:
        file.write(picture + "\n")
        turn = 0
        while file.tell() < size:
            steps = [A(f"turn {turn}"), C(f"cat file{turn}", 0, noise),
                     C(f"make part{turn % 50}", 2 if turn % 7 == 0 else 0, "boom"),
                     E(f"part{turn}.c", noise)]  # fmt: skip
            steps += [U("go on")] if turn % 20 == 0 else []
            for line in writers.claude_code("huge", steps):
                own = line.replace("toolu_", f"toolu_{turn}_")
                file.write(own.replace('"uuid": "', f'"uuid": "{turn}-') + "\n")
            turn += 1
    return turn


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nothing tells the peak here")
def test_a_transcript_of_any_size_is_read_in_the_same_memory(tmp_path):
    megabytes = scaled("REASONBANK_TEST_TRANSCRIPT_MB", 60)
    path = tmp_path / "huge.jsonl"
    turns = write(path, megabytes * 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    peak, kept, left_out = json.loads(done.stdout)
    assert kept + left_out >= 4 * turns
    assert peak < MOST_MEMORY
    keep_count("huge transcripts", {
        "megabytes": megabytes, "steps": kept + left_out, "steps kept": kept,
        "megabytes of memory": peak // 1_000_000,
    })  # fmt: skip
