"""What can be told of the Dockerfile and the Compose file without building or starting anything."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.requirement import requirement

from reasonbank.index import address
from reasonbank.opening import INDEXES, LEDGERS, sqlite_path

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
BANKS = {name: each for name, each in SERVICES.items() if name.startswith("reasonbank")}


def test_the_dockerfile_has_no_fault_that_hadolint_knows():
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [program, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_only_what_is_copied_is_sent_to_whoever_builds():
    """No bank, key or history of the person who builds the image can get into it."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    assert lines[1] == "*"
    assert sent == {name.rstrip("/") for line in copied for name in line.split()}


@requirement("DEP-2")
@pytest.mark.parametrize("service", SERVICES)
def test_no_service_is_root_or_writes_beside_its_volumes(service):
    about = SERVICES[service]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", about["user"])
    assert about["read_only"] is True
    assert about["cap_drop"] == ["ALL"]
    assert about["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in about and "cap_add" not in about
    mounted = {volume.partition(":")[0] for volume in about["volumes"]}
    assert mounted and mounted <= set(COMPOSE["volumes"])


@requirement("DEP-2")
@pytest.mark.parametrize("service", SERVICES)
def test_the_health_of_every_service_is_watched(service):
    watched_by_image = "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
    assert "healthcheck" in SERVICES[service] or (service in BANKS and watched_by_image)
    for needed, how in SERVICES[service].get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[needed]


@requirement("DEP-2")
@pytest.mark.parametrize(
    ("bank", "ledger", "index"),
    [("reasonbank", "sqlite", ""), ("reasonbank-postgres", "postgresql", ""),
     ("reasonbank-qdrant", "sqlite", "qdrant"), ("reasonbank-chroma", "sqlite", "chroma")],
)  # fmt: skip
def test_each_profile_opens_its_bank_with_its_own_backend(bank, ledger, index):
    url, where = address.split(BANKS[bank]["environment"]["REASONBANK_URL"])
    found = address.parsed(where)
    assert urlsplit(url).scheme == ledger and ledger in LEDGERS
    assert (found.engine or "") == index and (not index or index in INDEXES)
    server = urlsplit(found.server or url).hostname
    profile = [server] if server else []
    assert BANKS[bank].get("profiles", []) == list(BANKS[bank].get("depends_on", {})) == profile
    assert bank == "-".join(["reasonbank", *profile])
    if server:
        assert SERVICES[server]["profiles"] == profile
    if ledger == "sqlite":
        folder = BANKS[bank]["volumes"][0].partition(":")[2]
        assert sqlite_path(url).is_relative_to(folder)


def test_every_extra_that_a_url_needs_is_in_the_image():
    extras = BANKS["reasonbank"]["build"]["args"]["EXTRAS"]
    assert {"postgres", "qdrant"} <= set(re.findall(r"\w+", extras.partition(":-")[2]))
    for extra in re.findall(r"\w+", extras.partition(":-")[2]):
        assert (ROOT / "requirements" / f"{extra}.txt").is_file()


def test_only_this_machine_reaches_a_bank_and_nobody_its_backend():
    for name, about in SERVICES.items():
        if name in BANKS:
            assert about["ports"][0].startswith("${PUBLISH_ADDRESS:-127.0.0.1}:")
        else:
            assert "ports" not in about and about["networks"] == ["backend"]
    assert COMPOSE["networks"]["backend"] == {"internal": True}


def test_no_secret_is_in_the_file():
    for about in SERVICES.values():
        for name, value in about["environment"].items():
            if re.search("PASSWORD|KEY|TOKEN|SECRET", name):
                assert re.fullmatch(r"\$\{[A-Z_]+:-\}", value), name
    assert "secret" not in (ROOT / "compose.yaml").read_text().lower()


def test_a_stop_gives_calls_their_time_to_end():
    from reasonbank.surfaces.http.server import FAREWELL_SECONDS

    for about in BANKS.values():
        assert int(about["stop_grace_period"].removesuffix("s")) > FAREWELL_SECONDS


def commands_of_the_page():
    """(service, words) of what the page would run in a container."""
    page = (ROOT / "docs" / "how-to" / "run-in-a-container.md").read_text()
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    found = re.findall(r"^docker compose (?:run --rm|exec) (\S+) (.*)$", lines, re.MULTILINE)
    return [(service, words.removeprefix("reasonbank ")) for service, words in found]


def test_the_commands_of_the_page_do_what_it_says(tmp_path):
    """In a folder that stands for the volume; no engine is needed for that."""
    home = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
            "XDG_DATA_HOME": str(tmp_path)}  # fmt: skip
    folder = f"{tmp_path}/reasonbank"
    asked = commands_of_the_page()
    assert {service for service, _ in asked} <= set(SERVICES)
    assert len(asked) == 7
    for service, words in asked:
        if words.startswith("cat "):
            continue  # The token that a server made: see test_image.py.
        if words.startswith("open"):
            continue  # It needs the server.
        if service != "reasonbank":
            assert ("reasonbank", words) in asked
            continue
        done = subprocess.run(
            ["reasonbank", *words.replace("/data/reasonbank", folder).split()],
            env=home, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize("profile", ["", "postgres", "qdrant", "chroma"])
def test_docker_compose_understands_it(profile):
    """Where `docker compose` is not installed, the other tests have to do."""
    if (program := shutil.which("docker")) is None or compose(program, "version")[0] != 0:
        pytest.skip("`docker compose` is not installed")
    code, told = compose(program, "--profile", profile, "config", "--format", "json")
    assert code == 0, told
    started = {"reasonbank"} | ({profile, f"reasonbank-{profile}"} if profile else set())
    assert set(json.loads(told)["services"]) == started


def compose(program, *words):
    done = subprocess.run(
        [program, "compose", *words], cwd=ROOT, env=dict(os.environ), text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr
