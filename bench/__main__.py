"""Run every bench in turn, then put their tables into docs/benchmarks.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench import tables

BENCHES = (
    "speed", "retrieval", "embedding", "rules", "distil", "agent", "consolidate", "server", "web",
    "learning", "model_cache", "handshake", "hooks", "counts", "agents", "holdout",
    "scale", "poison", "probation", "bus", "bus_frames", "bus_banks",
)  # fmt: skip


def main() -> int:
    here = Path(__file__).parent
    failed = []
    for name in BENCHES:
        if not any((here / place).is_file() for place in (f"{name}.py", f"{name}/__main__.py")):
            print(f"bench.{name} is not here; skipped")
            continue
        # A process each: no bench warms the caches of the next.
        command = [sys.executable, "-m", f"bench.{name}"]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    tables.rewrite_document()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
