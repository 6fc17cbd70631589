"""What failed in a run of all tests is run once more, alone, and named: `make check` does so.

Nine thousand tests with servers, browsers and network namespaces meet every delay that a busy
machine has. What fails twice is broken, and so is a tree in which many fail once; what passes
alone is unsteady, and said to be: it is to be mended, not to be forgotten.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 5
"""With more of them it is no accident."""
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.is_file() else []
    if not 0 < len(failed) <= MOST:
        print(f"{len(failed)} failed; up to {MOST} would be run a second time", flush=True)
        return 1
    print("A second time, alone:", *failed, sep="\n  ", flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rA", *failed]
    again = subprocess.run(command, check=False).returncode
    if not again:
        print("UNSTEADY, passed alone only:", *failed, sep="\n  ", flush=True)
    return again


if __name__ == "__main__":
    sys.exit(main())
