"""The image is built as its page says, and run as an engine would."""

import json
import re
import signal
from urllib.parse import urlsplit

from tests.containers.image import CLIENT, LESSON, Container
from tests.engines.postgres import PASSWORD
from tests.requirement import requirement


def said(container):
    """What a command in a container of its own printed."""
    code, printed, logged = container.ended()
    assert code == 0, logged
    return printed


def a_token(image, volume, **options):
    words = ("token", "create", "--scope", "write", "--name", "laptop")
    return said(Container(image, volume, *words, **options)).splitlines()[-1]


def call(container, token, path, body=None, port=8321):
    words = ("python", "-c", CLIENT, token, str(port), path, json.dumps(body) if body else "")
    done = container.execute(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@requirement("DEP-2")
def test_what_is_recorded_is_there_when_the_container_is_made_anew(image, tmp_path):
    token = a_token(image, tmp_path / "data")
    with Container(image, tmp_path / "data") as container:
        assert json.loads(container.first_line())["token_needed"]
        recorded = call(container, token, "memories", LESSON)
        code, _, logged = container.stop()
        assert code == 0, logged
    with Container(image, tmp_path / "data") as container:
        container.first_line()
        found = call(container, token, "search", {"query": "the upload broke off"})
        assert [hit["id"] for hit in found["memories"]] == [recorded["id"]]
        assert "degraded" not in json.dumps(found["notes"])


@requirement("DEP-2")
def test_it_is_not_root_and_has_no_rights(image, tmp_path):
    a_token(image, tmp_path / "data")
    with Container(image, tmp_path / "data") as container:
        container.first_line()
        said = container.execute("sh", "-c", "cat /proc/[0-9]*/status").stdout
        for name, value in {
            "Uid": "10001",
            "Gid": "10001",
            "CapEff": "0" * 16,
            "NoNewPrivs": "1",
        }.items():
            found = re.findall(rf"^{name}:(.*)$", said, re.MULTILINE)
            assert len(found) >= 2  # The first process, and the server.
            assert {word for line in found for word in line.split()} == {value}


@requirement("DEP-2")
def test_nothing_is_written_beside_the_volume(image, tmp_path):
    a_token(image, tmp_path / "data")
    with Container(image, tmp_path / "data") as container:
        container.first_line()
        assert container.is_healthy()
        refused = container.execute("touch", "/opt/reasonbank/here", "/etc/here", "/usr/here")
        assert refused.stderr.count("Read-only file system") == 3
        assert container.execute("ls", "-A", "/tmp").stdout == ""
        code, _, logged = container.stop()
    assert code == 0
    assert {json.loads(line)["level"] for line in logged.splitlines()} == {"info"}
    kept = {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*")}
    assert kept == {("data",), ("data", "reasonbank")}
    assert (tmp_path / "data" / "reasonbank" / "bank.db").stat().st_mode & 0o077 == 0


@requirement("DEP-2")
def test_its_health_is_that_of_the_server(image, tmp_path):
    a_token(image, tmp_path / "data")
    with Container(image, tmp_path / "data", "worker") as container:
        assert not container.is_healthy()  # Nobody listens.
    with Container(image, tmp_path / "data") as container:
        container.first_line()
        assert container.is_healthy()


@requirement("DEP-2")
def test_a_stop_is_heeded_before_it_serves(image, tmp_path):
    with Container(image, tmp_path / "data", "worker") as container:
        assert container.stop()[0] in (0, 128 + signal.SIGTERM)


@requirement("DEP-2")
def test_another_port_is_a_variable_and_the_health_check_follows(image, tmp_path):
    token = a_token(image, tmp_path / "data")
    port = {"REASONBANK_PORT": "9000"}
    with Container(image, tmp_path / "data", environment=port) as container:
        assert json.loads(container.first_line())["address"].endswith(":9000")
        assert container.is_healthy()
        assert call(container, token, "memories", port=9000) == []


def test_it_opens_to_others_only_once_there_is_a_token(image, tmp_path):
    code, printed, _ = Container(image, tmp_path / "data").ended()
    assert code == 4
    assert "reasonbank token create" in json.loads(printed)["message"]


def test_no_token_is_in_what_an_engine_logs(image, tmp_path):
    a_token(image, tmp_path / "data")
    with Container(image, tmp_path / "data") as container:
        first = container.first_line()
        file = container.execute("cat", json.loads(first)["token_file"])
        _, printed, logged = container.stop()
    assert file.stdout.startswith("rbk_")
    assert "rbk_" not in first + printed + logged


def test_any_user_will_do_that_owns_the_volume(image, tmp_path):
    token = a_token(image, tmp_path / "data", user="4321:4321")
    with Container(image, tmp_path / "data", user="4321:4321") as container:
        container.first_line()
        assert call(container, token, "memories", LESSON)["title"] == LESSON["title"]
        assert container.stop()[0] == 0


def test_the_tools_that_built_it_are_not_in_it(image):
    found = {path.name for path in (image.root / "opt/reasonbank/bin").iterdir()}
    assert "reasonbank" in found
    assert not [name for name in found if name.startswith("pip")]
    assert not (image.root / "build").exists()


def test_a_bank_in_postgresql_is_used_with_the_password_of_the_environment(
    image, tmp_path, postgres_url
):
    url = urlsplit(postgres_url)
    more = {
        "REASONBANK_URL": f"postgresql://{url.username}@127.0.0.1:{url.port}{url.path}",
        "PGPASSWORD": PASSWORD,
        "REASONBANK_HOST": "127.0.0.1",
        "REASONBANK_PORT": "0",
    }
    options = {"environment": more, "shares_network": True}
    token = a_token(image, tmp_path / "data", **options)
    with Container(image, tmp_path / "data", **options) as container:
        port = json.loads(container.first_line())["address"].rpartition(":")[2]
        call(container, token, "memories", LESSON, port=port)
        found = call(container, token, "search", {"query": "the upload broke off"}, port=port)
        assert found["total_found"] == 1
        assert container.stop()[0] == 0
