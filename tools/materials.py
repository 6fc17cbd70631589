"""What a user of ReasonBank installs, and under which licences.

    python -m tools.materials             # writes docs/reference/licences.md
    python -m tools.materials sbom.json   # a bill of materials (CycloneDX)

Which packages these are is in requirements/ (`make lock`); their licences are what the installed
ones say.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
EXTRAS = ("postgres", "qdrant", "chroma", "onnx", "bus")
PINNED = re.compile(r"^([a-z0-9][^\s;\\]*==[^\s;\\]+(?: ; [^\\]+)?)", re.MULTILINE)
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache Software License AND MIT License": "Apache-2.0 AND MIT",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "any-OSI": "any that the OSI approved",
}
"""Other words for licences that have a name of SPDX; the last two leave it open which is meant."""
OPEN_ENDED = frozenset({"BSD", "any that the OSI approved"})

HEAD = """\
# Licences

What is installed with ReasonBank, on Linux, and the licence that its authors give it away under.
ReasonBank itself is under Apache-2.0. The model inside has a licence file and a list of sources of
its own, which the package brings along. `make licences` writes this page from the installed
packages; a test sees to it that no other kind of licence comes in unnoticed.

| package | licence | needed by |
|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    version: str
    licence: str
    needed_by: tuple[str, ...]
    """`reasonbank`, or the extras that bring it."""


def packages() -> list[Package]:
    """All but the project itself, as they are installed on this system."""
    bringing: dict[str, list[str]] = {}
    for part in ("core", *EXTRAS):
        for name in locked(part):
            bringing.setdefault(name, []).append(part)
    return [
        Package(
            name=name,
            version=distribution(name).version,
            licence=licence(distribution(name)),
            needed_by=("reasonbank",) if "core" in parts else tuple(parts),
        )
        for name, parts in sorted(bringing.items())
    ]


def locked(part: str) -> Iterator[str]:
    text = (ROOT / "requirements" / f"{part}.txt").read_text()
    for line in PINNED.findall(text):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            yield canonicalize_name(requirement.name)


def licence(package: Distribution) -> str:
    """By its name of SPDX where it has one; empty if the package does not say."""
    about = package.metadata
    if said := about.get("License-Expression"):
        return NAMES.get(said, said)
    marks = [each.split(" :: ")[-1] for each in about.get_all("Classifier", [])
             if each.startswith("License :: ") and each != "License :: OSI Approved"]  # fmt: skip
    said = " AND ".join(sorted(marks)) or (about.get("License") or "").split("\n")[0]
    return NAMES.get(said, said) or _by_its_text(package)


def _by_its_text(package: Distribution) -> str:
    """Where nothing else is said, the licence that lies beside the package."""
    texts = [file for file in package.files or () if file.name.upper().startswith("LICEN")]
    words = " ".join(texts[0].read_text().split()) if texts else ""
    return "Apache-2.0" if words.startswith("Apache License Version 2.0") else ""


def page() -> str:
    rows = (f"| {p.name} | {p.licence} | {', '.join(p.needed_by)} |" for p in packages())
    return HEAD + "\n".join(rows) + "\n"


def bill() -> dict[str, Any]:
    """A bill of materials in the form of CycloneDX; the same for the same packages."""
    own = distribution("reasonbank")
    found = packages()
    known = {each.name: _reference(each.name, each.version) for each in found}
    this = _reference("reasonbank", own.version)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": this, "name": "reasonbank",
                "version": own.version, "purl": this, "licenses": _licences("Apache-2.0"),
            }
        },
        "components": [
            {
                "type": "library", "bom-ref": known[each.name], "name": each.name,
                "version": each.version, "purl": known[each.name],
                "licenses": _licences(each.licence),
            }
            for each in found
        ],
        "dependencies": [
            {"ref": this, "dependsOn": _needs(own, known)},
            *({"ref": known[each.name], "dependsOn": _needs(distribution(each.name), known)}
              for each in found),
        ],
    }  # fmt: skip


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _licences(said: str) -> list[dict[str, Any]]:
    return [{"license": {"name": said}} if said in OPEN_ENDED else {"expression": said}]


def _needs(package: Distribution, known: dict[str, str]) -> list[str]:
    """Of what is installed; also what it needs for one of its extras only."""
    environments = [
        {"extra": each} for each in ("", *package.metadata.get_all("Provides-Extra", []))
    ]
    needed = set()
    for line in package.requires or ():
        requirement = Requirement(line)
        wanted = requirement.marker is None or any(map(requirement.marker.evaluate, environments))
        if wanted and (found := known.get(canonicalize_name(requirement.name))):
            needed.add(found)
    return sorted(needed)


def main() -> None:
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(bill(), indent=1) + "\n")
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
