"""What is installed beside our own code: pinned, hashed, listed, and licensed as expected."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.materials import EXTRAS, PAGE, PINNED, bill, packages, page

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FREE = {"0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT",
        "MIT-0", "PSF-2.0", "Zlib"}  # fmt: skip
KNOWN_OTHERWISE = {
    # Its file says: the zlib licence, or any that the OSI approved.
    "apsw": "any that the OSI approved",
    # Changes to its own files are to be published; whatever uses them is not concerned.
    "certifi": "MPL-2.0",
    "orjson": "MPL-2.0 AND (Apache-2.0 OR MIT)",
    "tqdm": "MPL-2.0 AND MIT",
    # An extra. Used as it is, and whoever installs it can put another version in its place.
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}


def pinned(lock):
    """Each package of a lock file with its versions: there may be one for each Python."""
    found = {}
    for line in PINNED.findall(lock.read_text()):
        requirement = Requirement(line)
        version = next(iter(requirement.specifier)).version
        found.setdefault(canonicalize_name(requirement.name), set()).add(version)
    return found


def asked_for(lock):
    groups = PROJECT["dependency-groups"]
    extras = PROJECT["project"]["optional-dependencies"]
    core = PROJECT["project"]["dependencies"]
    if lock == "dev":
        more = [each for name in EXTRAS for each in extras[name]]
        return [*core, *groups["dev"], *groups["build"], *more]
    if lock in groups:
        return groups[lock]
    return [*core, *extras.get(lock, ())]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_file_that_is_installed_is_known_by_its_hash(lock):
    text = lock.read_text()
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINNED.findall(text)) > 0
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text, "names and hashes alone: whoever installs has their own mirror"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_what_the_project_asks_for_is_what_is_locked(lock):
    have = pinned(lock)
    for line in asked_for(lock.stem):
        if not isinstance(line, str):
            continue  # Another group, whose lines are looked at themselves.
        requirement = Requirement(line)
        versions = have.get(canonicalize_name(requirement.name), set())
        assert versions, f"{line} is not in {lock.name}: run make lock"
        assert all(map(requirement.specifier.contains, versions)), f"{line}: run make lock"


def test_what_was_tested_is_what_the_image_installs():
    tested = pinned(ROOT / "requirements" / "dev.txt")
    for part in ("core", "build", *EXTRAS):
        for name, versions in pinned(ROOT / "requirements" / f"{part}.txt").items():
            assert versions <= tested[name], name


def test_the_page_of_licences_is_what_the_packages_say():
    assert PAGE.read_text() == page(), "run make licences, and read what has changed"


def test_no_licence_is_unknown_or_comes_as_a_surprise():
    for package in packages():
        names = set(re.split(r" AND | OR |[()]", package.licence)) - {""}
        if not names or not names <= FREE:
            assert KNOWN_OTHERWISE.get(package.name) == package.licence, package


def test_the_bill_of_materials_is_one_and_names_every_package():
    made = bill()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is None
    assert {part["name"] for part in made["components"]} == {each.name for each in packages()}
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    reached, rest = set(), [made["metadata"]["component"]["bom-ref"]]
    while rest:
        reached.add(rest[-1])
        rest.extend(set(needs[rest.pop()]) - reached)
    assert reached == set(needs)
