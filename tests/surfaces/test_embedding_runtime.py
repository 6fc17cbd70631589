"""Which processes run the packaged model by onnxruntime, as their commands say."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.journeys.test_backfill import mended, write
from tests.journeys.test_where_it_belongs import LESSON, Machine, folder
from tests.requirement import requirement
from tests.surfaces.http_server import serving

from reasonbank.embed.minilm import MiniLM

pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install 'reasonbank[onnx]'")

MODEL = MiniLM.name
QUICK = f"{MODEL}, run by onnxruntime "
SLOW = f"{MODEL}, run by numpy"


@pytest.fixture
def machine(tmp_path):
    machine = Machine(folder(tmp_path / "home"))
    machine.environment["REASONBANK_EMBED_MODEL"] = "minilm"
    return machine


@pytest.fixture
def without(machine, tmp_path):
    """The same machine, with another package in the place of onnxruntime."""

    def broken(code: str) -> Machine:
        (folder(tmp_path / "broken") / "onnxruntime.py").write_text(code)
        path = machine.environment.get("PYTHONPATH", "")
        machine.environment["PYTHONPATH"] = f"{tmp_path / 'broken'}:{path}"
        return machine

    return broken


def embedder(machine):
    checks = machine.json("doctor")["checks"]
    return next(check for check in checks if check["name"] == "embedder")


@requirement("RET-1")
def test_a_server_says_what_runs_the_model_and_uses_it(tmp_path):
    with serving(tmp_path, REASONBANK_EMBED_MODEL="minilm") as server:
        numbers = server.ask("GET", "/statistics").json()
        assert numbers["process"]["runtime"].startswith("onnxruntime ")
    lines = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
    assert any(line["message"].startswith(f"embeds with {QUICK}") for line in lines)


@requirement("RET-1")
def test_a_worker_and_backfill_say_what_runs_the_model(machine):
    assert f"embeds with {QUICK}" in machine.run("worker", "--until-empty").stderr
    write(machine, 1, mended(1), folder(machine.home / "app"))
    assert f"Embeds with {QUICK}" in machine.run("backfill", "--yes").stderr
    quiet = machine.json("backfill")
    assert quiet["found"] == 1


def test_nothing_is_reported_to_the_makers_of_onnxruntime(machine):
    """It keeps what it sends in the user's cache folder; on a build machine it sends nothing."""
    assert not {"CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY"} & set(machine.environment)
    assert f"embeds with {QUICK}" in machine.run("worker", "--until-empty").stderr
    assert not [*machine.home.rglob("*onnxruntime*")]


def test_short_commands_do_not_load_it(machine):
    machine.run(*LESSON)
    code = (
        "import sys; from reasonbank.surfaces.cli import main\n"
        "try: main(['search', 'retry uploads'])\n"
        "except SystemExit: print('onnxruntime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=machine.environment, cwd=machine.home,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Retry uploads" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
    assert machine.json("stats")["process"]["runtime"] == "numpy"


@requirement("CLI-4")
@requirement("RET-1")
def test_doctor_says_what_runs_the_model(machine):
    found = embedder(machine)
    assert found["status"] == "ok"
    assert found["found"].startswith(f"{MODEL}, offline, run by onnxruntime ")
    machine.environment["REASONBANK_EMBED_RUNTIME"] = "numpy"
    assert embedder(machine)["found"] == f"{MODEL}, offline, run by numpy"


@requirement("CLI-4")
def test_where_onnxruntime_is_missing_doctor_says_how_to_get_it(without):
    machine = without("raise ModuleNotFoundError(name='onnxruntime')")
    found = embedder(machine)
    assert found["status"] == "ok"
    assert "run by numpy" in found["found"]
    assert "pip install 'reasonbank[onnx]'" in found["found"]
    said = machine.run("worker", "--until-empty").stderr
    assert f"embeds with {SLOW} (onnxruntime is not installed)" in said


@requirement("CLI-4")
def test_where_onnxruntime_is_broken_everything_works_and_doctor_says_why(without):
    machine = without("raise ImportError('libgomp.so.1: cannot open shared object file')")
    found = embedder(machine)
    assert found["status"] == "warn"
    assert "libgomp.so.1" in found["found"]
    assert found["repair"].startswith("pip install ")
    machine.run(*LESSON)
    assert f"embeds with {SLOW}" in machine.run("worker", "--until-empty").stderr
    assert machine.found(machine.home)[0] == ["Retry uploads"]
