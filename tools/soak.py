"""The proofs that are never long enough, at length: `python -m tools.soak [--seed 1]`.

Writes what they went through into tests/soak.md; takes some hours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "soak.md"
TESTS = (
    "tests/faults/test_convergence.py",
    "tests/faults/test_many_hands.py",
    "tests/security/test_canaries.py",
    "tests/faults/test_huge_transcripts.py",
    "tests/safety/test_trust_chains.py",
    "tests/peers/test_simulation.py",
    "tests/peers/test_equal_banks.py",
    "tests/peers/test_machines.py",
    "tests/peers/test_quic.py",
)
SCALE = {
    "REASONBANK_TEST_CONVERGENCE_RUNS": "2000",
    "REASONBANK_TEST_CONVERGENCE_STEPS": "100",
    "REASONBANK_TEST_HANDS": "2000",
    "REASONBANK_TEST_CANARIES": "10000",
    "REASONBANK_TEST_TRANSCRIPT_MB": "500",
    "REASONBANK_TEST_TRUST_CHAINS": "1000",
    "REASONBANK_TEST_GOSSIP": "10000",
    "REASONBANK_TEST_BUS_SEEDS": "50",
    "REASONBANK_TEST_BUS_BANKS": "10",
    "REASONBANK_TEST_BUS_OPERATIONS": "1000",
    "REASONBANK_TEST_BUS_MACHINES": "10",
    "REASONBANK_TEST_RECONNECTS": "1000",
}
HEAD = """# Soak

`make soak` runs these at length. Banks that exchange exports must agree whatever was done in them;
writers through all surfaces are killed at random, and what was acknowledged must stand; of 27
workspaces that are asked for everything, none learns or changes what is another's; a transcript
is read that is larger than the memory it may take; whatever is made from lessons, by whom and how
often, is trusted no more than the least of them; ten banks on a network that loses, delays, repeats
and parts, with liars among them, end up with the same logs; and so do ten banks over real QUIC
through such a network, whose programs die, and ten on machines of their own, cables pulled.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        told = {"REASONBANK_TEST_COUNTS": str(counts), "REASONBANK_TEST_SEED": str(seed)}
        command = [sys.executable, "-m", "pytest", "-o", "faulthandler_timeout=0", *TESTS]
        code = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **SCALE, **told}, check=False
        ).returncode
        if code:
            return code
        lines = counts.read_text("utf-8").splitlines()
    PAGE.write_text(page([json.loads(line) for line in lines]), "utf-8")
    return 0


def page(kept: list[dict[str, dict[str, Any]]]) -> str:
    parts = [HEAD]
    for entry in kept:
        for name, counts in entry.items():
            parts += [f"## {name.capitalize()}", ""]
            parts += [f"- {what}: {_number(count)}" for what, count in counts.items()]
            parts.append("")
    return "\n".join(parts)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
