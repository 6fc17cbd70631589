"""An engine starts what the Compose file says, with the commands of its page.

podman-compose stands for `docker compose`. It wants to be told the profile of a named service.
"""

import json
import re
import shlex
from dataclasses import dataclass

import pytest
from tests.containers.engine import PORT, Engine
from tests.containers.image import LESSON, ROOT
from tests.requirement import requirement


@dataclass
class Stack:
    """A bank that runs, and its backend if it has one."""

    engine: Engine
    profile: str

    @property
    def bank(self):
        return "-".join(filter(None, ["reasonbank", self.profile]))

    @property
    def services(self):
        return [self.bank, *filter(None, [self.profile])]

    def compose(self, *words):
        return self.engine.compose("--profile", self.profile, *words)

    def start(self):
        self.compose("up", "--detach", self.bank)
        for service in self.services:
            assert self.engine.becomes_healthy(service)

    def a_token(self, name):
        words = ("token", "create", "--scope", "write", "--name", name)
        return self.compose("run", "--rm", "-T", self.bank, *words).splitlines()[-1]


@pytest.fixture(scope="module")
def chroma(engine):
    engine.build("--profile", "chroma", "build", "chroma")
    return "chroma"


@pytest.fixture(scope="module", params=["", "chroma"], ids=["file", "chroma"])
def stack(request, engine):
    stack = Stack(engine, request.param and request.getfixturevalue(request.param))
    try:
        stack.a_token("first")  # Without one it would not open to others.
        stack.start()
        yield stack
    finally:
        stack.compose("down", "--volumes")


@requirement("DEP-2")
def test_what_is_recorded_outlives_every_container(stack):
    token = stack.a_token("desktop")
    recorded = stack.engine.call(token, "memories", LESSON)
    before = {stack.engine.about(service)["Id"] for service in stack.services}
    stack.compose("down")
    assert stack.engine.podman("ps", "--all", "--quiet") == ""
    stack.start()
    assert not before & {stack.engine.about(service)["Id"] for service in stack.services}
    found = stack.engine.call(token, "search", {"query": "the upload broke off"})
    assert [hit["id"] for hit in found["memories"]] == [recorded["id"]]
    assert "degraded" not in json.dumps(found["notes"])


@requirement("DEP-2")
def test_the_vectors_of_a_bank_are_where_its_profile_says(stack):
    stack.engine.call(stack.a_token("tablet"), "memories", LESSON)
    told = " ".join(stack.compose("exec", "-T", stack.bank, "reasonbank", "doctor").split())
    where = "; in the Chroma index at http://chroma:8000" if stack.profile else ""
    assert re.search(rf" [1-9]\d* in step with the store{where} ", told)


@requirement("DEP-2")
def test_no_service_that_runs_is_root_or_has_rights(stack):
    for service in stack.services:
        about = stack.engine.about(service)
        assert about["Config"]["User"] == "10001:10001"
        assert about["HostConfig"]["ReadonlyRootfs"] is True
        assert about["HostConfig"]["Privileged"] is False
        assert not about["EffectiveCaps"] and not about["BoundingCaps"]
        told = stack.engine.podman("exec", about["Name"], "cat", "/proc/1/status")
        for line in ("Uid:\t10001\t10001\t", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"):
            assert line in told


@requirement("DEP-2")
def test_a_bank_is_published_to_this_machine_and_a_backend_to_nobody(stack):
    bank, *backends = map(stack.engine.about, stack.services)
    published = [{"HostIp": "127.0.0.1", "HostPort": str(PORT)}]
    assert bank["HostConfig"]["PortBindings"] == {"8321/tcp": published}
    for about in backends:
        assert not any(about["HostConfig"]["PortBindings"].values())
        (network,) = about["NetworkSettings"]["Networks"]
        assert json.loads(stack.engine.podman("network", "inspect", network))[0]["internal"] is True


@requirement("DEP-2")
def test_a_stop_ends_it_with_0_and_it_starts_again(stack):
    stack.compose("stop", stack.bank)
    state = stack.engine.about(stack.bank)["State"]
    assert (state["Status"], state["ExitCode"], state["OOMKilled"]) == ("exited", 0, False)
    stack.start()


def commands_of_the_page():
    """Those of the bank in a file, as they stand there."""
    page = (ROOT / "docs" / "how-to" / "run-in-a-container.md").read_text()
    lines = re.findall(r"^docker compose (.*)$", page.partition("## What can be changed")[0], re.M)
    return [shlex.split(line, comments=True) for line in lines]


@requirement("DEP-2")
def test_the_commands_of_the_page_work_for_every_service_of_a_bank(stack):
    """But for `build`, which is done by then, and `cp`, which podman-compose does not have."""
    verbs = []
    for words in commands_of_the_page():
        if words[0] in ("build", "cp"):
            continue
        words[words.index("reasonbank")] = stack.bank
        told = stack.compose(*words)
        if "cat" in words or "create" in words:
            assert re.search(r"^rbk_\w+\s*$", told, re.MULTILINE)
        verbs.append(words[0])
    assert set(verbs) == {"run", "up", "exec"}


def test_settings_in_a_file_beside_it_reach_it(stack):
    file = stack.engine.checkout / "reasonbank.env"
    file.write_text("REASONBANK_SERVER_HOSTS=bank.example\n")
    try:
        told = stack.compose("run", "--rm", "-T", "--entrypoint", "env", stack.bank)
    finally:
        file.unlink()
    assert "REASONBANK_SERVER_HOSTS=bank.example" in told.splitlines()
