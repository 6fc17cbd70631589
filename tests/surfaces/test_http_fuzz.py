"""Requests that are made up from the OpenAPI document, well-formed and not: never a 5xx.

REASONBANK_TEST_FUZZ sets how many for each operation.
"""

import os
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, a_token, serving

from reasonbank.surfaces.http.openapi import document

EACH = int(os.environ.get("REASONBANK_TEST_FUZZ", "12"))
SCHEMA = schemathesis.openapi.from_dict(document())
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
SEEN = Counter()


@schemathesis.serializer("application/x-ndjson")
def lines(_, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


class Target:
    """A server, and ids that exist in it: made-up ones would only ever be not found."""

    def __init__(self, server, token):
        self.server = server
        self.headers = {"Authorization": f"Bearer {token}"}
        with server.client(token) as client:
            memory = client.post("/memories", json=LESSON).json()
            other = client.post("/memories", json={**LESSON, "parents": [memory["id"]]}).json()
            trace = client.post("/traces", json={"task": "t", "outcome": "success"}).json()
            job = client.post("/sessions", json={"task": "t"}).json()
        self.ids = {"memories": [memory["id"], other["id"]], "traces": [trace["id"]],
                    "jobs": [job["id"]], "workspaces": [memory["workspace"]]}  # fmt: skip

    def aim(self, case):
        known = [] if case.method == "DELETE" else self.ids.get(case.path.split("/")[3])
        number = SEEN.total()
        if known and number % 2 and case.path_parameters and "id" in case.path_parameters:
            case.path_parameters["id"] = known[number % len(known)]
        if number % 3:
            for given, name in ((case.query, "workspace"),
                                (case.headers, "X-ReasonBank-Workspace")):  # fmt: skip
                if given:
                    given.pop(name, None)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    token = a_token(folder)
    with serving(folder, REASONBANK_SERVER_RATE=1_000_000) as server:
        yield Target(server, token)
        assert server.alive()
        print(f"\n{SEEN.total():,} cases: {dict(sorted(SEEN.items()))}")
    log = (folder / "stderr").read_text()
    assert "unexpected" not in log, log


@requirement("SEC-3")
@pytest.mark.slow
@SCHEMA.parametrize()
@settings(
    max_examples=EACH, deadline=None, derandomize=True, database=None,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_no_request_gets_an_error_of_the_servers_own(case, target):
    target.aim(case)
    answer = case.call(base_url=target.server.address, headers=target.headers)
    SEEN[answer.status_code] += 1
    assert answer.status_code != 401
    case.validate_response(answer, checks=[not_a_server_error, response_schema_conformance])
