"""`python -m tests.agents.install [all]`: the pinned agents, below .cache/agents.

Says loudly, and goes on, where the registry cannot be reached: the tests then skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.agents.programs import PROGRAMS, Program

BIN = Path(sys.executable).parent
LIMIT_S = 300


def install(program: Program) -> bool:
    if program.path.exists():
        return True
    being_made = program.folder.with_name(program.folder.name + ".new")
    shutil.rmtree(being_made, ignore_errors=True)
    being_made.mkdir(parents=True)
    command = [
        BIN / "npm", "install", "--prefix", being_made, "--no-audit", "--no-fund",
        "--loglevel=error", f"{program.package}@{program.version}",
    ]  # fmt: skip
    env = os.environ | {"PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(command, timeout=LIMIT_S, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"!!! {program.name}: {error}", file=sys.stderr)
        return False
    if done.returncode != 0:
        return False
    being_made.rename(program.folder)
    return True


def main(names: list[str]) -> None:
    wanted = [each for each in PROGRAMS if "all" in names or each.first]
    missing = [each.name for each in wanted if not install(each)]
    if missing:
        print(f"!!! NOT TESTED with {', '.join(missing)}: npm could not install", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
