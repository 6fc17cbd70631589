"""What servers write to standard error: JSON lines without anybody's text."""

import json
import subprocess
import sys

import pytest

from reasonbank.surfaces.logs import where

SCRIPT = """
import logging, sys, warnings
from reasonbank import Settings
from reasonbank.settings import Log
from reasonbank.surfaces import logs
logging.getLogger("uvicorn.access").addHandler(logging.StreamHandler())
logs.set_up(Settings(log=Log(level=sys.argv[1], format=sys.argv[2])))
ours, theirs = logging.getLogger("reasonbank.learn"), logging.getLogger("elsewhere")
ours.info("job %s is done", 7)
ours.debug("only for the curious")
theirs.warning("could not read %s", "Xylophone")
theirs.warning("could not read Xylophone")
logging.getLogger("mcp.server").info("called with Xylophone")
logging.getLogger("uvicorn.error").info("Uvicorn running on %s", "http://127.0.0.1:8321")
logging.getLogger("uvicorn.access").info(
    '%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", "/search?query=Xylophone", "1.1", 200)
warnings.warn("Xylophone")
def fail():
    raise RuntimeError("Xylophone")
try:
    fail()
except RuntimeError as error:
    theirs.exception("it failed: %s", error)
    print(logs.unexpected("memory_search", error))
"""


def run(level="info", form="json"):
    code = [sys.executable, "-c", SCRIPT, level, form]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert "Xylophone" not in done.stderr + done.stdout
    return done.stderr.splitlines(), done.stdout


def test_a_line_is_json_and_repeats_nobodys_text():
    lines, told = run()
    facts = [json.loads(line) for line in lines]
    assert [(f["level"], f["logger"], f["message"]) for f in facts[:5]] == [
        ("info", "reasonbank.learn", "job 7 is done"),
        ("warning", "elsewhere", "could not read %s"),
        ("warning", "elsewhere", "from <string>:12"),
        ("info", "uvicorn.error", "Uvicorn running on http://127.0.0.1:8321"),
        ("info", "uvicorn.access", "127.0.0.1:5 GET /search 200"),
    ]
    assert all(f["time"].endswith("+00:00") for f in facts)
    warned, failed, ours = facts[5:]
    assert warned["logger"] == "py.warnings"
    assert (failed["error"], failed["message"]) == ("RuntimeError", "it failed: %s")
    assert "fail" in failed["where"]
    assert "memory_search: unexpected RuntimeError at " in ours["message"]
    assert "unexpected error (RuntimeError)" in told


def test_level_and_format_are_settings():
    lines, _ = run("error", "text")
    assert len(lines) == 2
    assert " error elsewhere it failed: %s RuntimeError " in lines[0]
    lines, _ = run("debug", "json")
    assert json.loads(lines[1])["message"] == "only for the curious"


def test_where_names_the_innermost_place_first():
    with pytest.raises(ValueError, match="no") as caught:
        inner()
    assert where(caught.value).split(" < ")[0].endswith("inner")


def inner():
    raise ValueError("no")
