"""`reasonbank doctor` says how far each agent is connected, and the command that repairs it."""

import json

import pytest
from tests.requirement import requirement

from reasonbank.surfaces.doctor import connected
from reasonbank.surfaces.install import plan
from reasonbank.surfaces.install.wiring import Wish


class Desk:
    """The home of a user with one agent, and a program that starts ReasonBank."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"HOME": str(folder / "home"), "PATH": "/nowhere"}
        self.program = folder / "reasonbank"
        self.program.touch(mode=0o755)
        (folder / "home" / ".claude").mkdir(parents=True)
        self.settings = folder / "home" / ".claude" / "settings.json"

    def install(self):
        wish = Wish(launcher=(str(self.program),))
        plan.install(plan.installing(["claude-code"], wish, self.environment), self.environment)

    def check(self):
        [check] = connected(self.environment)
        assert check.name == "Claude Code"
        return check

    def change(self, change):
        settings = json.loads(self.settings.read_text())
        change(settings)
        self.settings.write_text(json.dumps(settings))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@requirement("CLI-4")
def test_an_agent_that_is_not_connected_is_a_hint_and_no_fault(desk):
    assert desk.check().status == "ok"
    assert "reasonbank install claude-code" in desk.check().found
    desk.install()
    assert (desk.check().status, desk.check().repair) == ("ok", None)
    assert desk.check().found == "connected; no hook was called yet"


@requirement("CLI-4")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda desk: desk.program.unlink(), "is not there"),
        (lambda desk: desk.change(lambda it: it.pop("permissions")), "may not call the tools"),
        (lambda desk: desk.change(lambda it: it["hooks"].pop("Stop")), "called at: turn-end"),
        (lambda desk: (desk.folder / "home/.claude.json").unlink(), "the server is not"),
    ],
    ids=["program", "permission", "hook", "server"],
)  # fmt: skip
def test_what_is_missing_is_said_and_an_install_repairs_it(desk, what, said):
    desk.install()
    what(desk)
    check = desk.check()
    assert check.status == "warn" and said in check.found
    assert check.repair == "reasonbank install claude-code"
    desk.program = desk.folder / "new" / "reasonbank"
    desk.program.parent.mkdir()
    desk.program.touch(mode=0o755)
    desk.install()
    assert desk.check().status == "ok"


def test_a_config_that_cannot_be_read_is_named_with_its_place(desk):
    desk.settings.write_text('{"a": 1,,}')
    check = desk.check()
    assert check.status == "warn" and f"{desk.settings}: line 1, column 9" in check.found


def test_the_last_call_of_a_hook_is_told_and_a_failure_is_a_warning(desk):
    desk.install()
    folder = desk.folder / "home/.local/state/reasonbank/hooks/claude-code"
    folder.mkdir(parents=True)
    (folder / "prompt").write_text("ok")
    assert "last hook: prompt, 0 minutes ago (ok)" in desk.check().found
    (folder / "prompt").write_text("failed: the disk is full")
    assert desk.check().status == "warn" and "the disk is full" in desk.check().found


def test_looking_changes_nothing(desk):
    desk.install()
    before = {path: path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()}
    desk.check()
    assert before == {path: path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()}
