"""`reasonbank install` and `uninstall`, as a user types them, in a home of their own."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tomllib
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.requirement import requirement

from reasonbank.surfaces.agents import AGENTS
from reasonbank.surfaces.cli import main
from reasonbank.surfaces.install import jsonc, plan
from reasonbank.surfaces.install.wiring import PLUGS, Wish, targets

NAMES = [agent.name for agent in AGENTS]
VARIABLES = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "COPILOT_HOME",
    "OPENCODE_CONFIG_DIR", "CURSOR_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "UV",
)  # fmt: skip
CLAUDE = '{\n\t"env": {"A": "b"},\n\t"permissions": {"allow": ["Bash(ls:*)"]}\n}'
SEEDS = {
    "claude-code": {
        ".claude.json": '{"numStartups": 3,\n "mcpServers": {}}',
        ".claude/settings.json": CLAUDE,
    },
    "codex": {".codex/config.toml": '# mine\r\nmodel = "gpt"\r\n[mcp_servers.a]\r\ncommand = "x"'},
    "gemini-cli": {".gemini/settings.json": '\ufeff// note\r\n{\r\n    "ui": {}, // why\r\n}\r\n'},
    "qwen-code": {".qwen/settings.json": "{}"},
    "copilot-cli": {".copilot/mcp-config.json": '{ "mcpServers": { "a": {"command": "b"}, } }\n'},
    "opencode": {".config/opencode/opencode.jsonc": '{\n  // theme\n  "theme": "x"\n}\n'},
    "cursor": {".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "./x"}]}}\n'},
}  # fmt: skip

EDITS = {
    "Bash(ls:*)": "Bash(cat:*)", '"gpt"': '"other"', "why": "because", "theme": "colour",
    "numStartups": "starts", '"b"': '"c"', '"./x"': '"./y"',
}  # fmt: skip


class Home:
    def __init__(self, folder):
        self.folder = folder
        self.bin = folder.parent / "bin"
        self.bin.mkdir()
        self.program = self.bin / "reasonbank"
        self.program.symlink_to(Path(sys.executable).parent / "reasonbank")
        folder.mkdir()

    def run(self, *arguments, rc=0, cwd=None, **more):
        """In this process, which is quicker; `door` is how users do it."""
        blank = dict.fromkeys(VARIABLES, "")
        environment = {**blank, "HOME": str(self.folder), "PATH": f"{self.bin}:/nowhere", **more}
        with chdir(cwd or self.folder), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [str(self.program)])
            done = CliRunner().invoke(main, arguments, env={**environment, "COLUMNS": "400"})
        assert done.exit_code == rc, done.output
        return done.output

    def door(self, *arguments):
        environment = {"HOME": str(self.folder), "PATH": f"{self.bin}:/usr/bin:/bin",
                       "PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # fmt: skip
        return subprocess.run(
            [self.program, *arguments], env=environment, cwd=self.folder,
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def json(self, *arguments, **more):
        return json.loads(self.run(*arguments, "--json", **more))

    def seed(self, agent):
        for name, text in SEEDS[agent].items():
            self.write(name, text)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def read(self, name):
        return jsonc.parse((self.folder / name).read_text()).plain()

    def files(self):
        """All but our own notes: by name, what is in them and who may read them."""
        return {
            str(path.relative_to(self.folder)): (path.read_bytes(), path.lstat().st_mode)
            if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
            if ".local" not in path.parts
        }  # fmt: skip


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


@requirement("CLI-2")
@pytest.mark.parametrize("agent", NAMES)
@pytest.mark.parametrize("seeded", [False, True], ids=["no config", "a config"])
def test_after_install_and_uninstall_all_is_as_before_byte_for_byte(home, agent, seeded):
    if seeded:
        home.seed(agent)
    before = home.files()
    home.run("install", agent)
    first = home.files()
    assert first != before
    assert "unchanged" in home.run("install", agent) and home.files() == first
    home.run("uninstall", agent)
    assert home.files() == before


@requirement("CLI-2")
def test_at_the_door_every_agent_is_connected_and_taken_out_again(home):
    for agent in NAMES:
        home.seed(agent)
    before = home.files()
    said = home.door("install", "all")
    assert all(agent.title in said for agent in AGENTS) and str(home.program) in said
    assert "changed" not in home.door("install", "all").replace("unchanged", "")
    home.door("uninstall", "all")
    assert home.files() == before


@requirement("CLI-2")
@pytest.mark.parametrize("agent", NAMES)
def test_what_the_user_changes_in_between_stays_and_only_ours_goes(home, agent):
    home.seed(agent)
    home.run("install", agent)
    wanted = {}
    for name, text in SEEDS[agent].items():
        path = home.folder / name
        now = path.read_bytes().decode()
        for old, new in EDITS.items():
            now, text = now.replace(old, new), text.replace(old, new)
        path.write_text(now, newline="")
        wanted[name] = text
    home.run("uninstall", agent)
    for name in SEEDS[agent]:
        assert (home.folder / name).read_bytes().decode() == wanted[name]


@requirement("CLI-2")
@pytest.mark.parametrize("agent", NAMES)
def test_without_its_notes_the_entries_are_known_by_their_looks(home, agent):
    home.seed(agent)
    before = {name: _meaning(home.folder / name) for name in SEEDS[agent]}
    home.run("install", agent)
    shutil.rmtree(home.folder / ".local")
    home.run("uninstall", agent)
    assert {name: _meaning(home.folder / name) for name in SEEDS[agent]} == before


def _meaning(path):
    """What a config says, but for servers that it has none of."""
    text = path.read_text()
    said = tomllib.loads(text) if path.suffix == ".toml" else jsonc.parse(text).plain()
    return {name: value for name, value in said.items() if value or name != "mcpServers"}


@requirement("CLI-2")
@pytest.mark.parametrize("agent", NAMES)
def test_the_server_the_hooks_and_the_permission_are_all_there(home, agent):
    home.run("install", agent)
    events = next(each.events for each in AGENTS if each.name == agent)
    wish = Wish(launcher=(str(home.program),))
    texts = [target.file.read_text() for target in targets(agent, wish, {"HOME": str(home.folder)})]
    said = "\n".join(texts)
    assert str(home.program) in said
    assert '"mcp","--tools","core"' in "".join(said.split())
    for event in set(events.values()):
        assert f"hook {event} --agent {agent}" in said or f'"{event}"' in said


def test_an_install_after_the_program_moved_changes_our_entries_only(home, tmp_path):
    home.seed("claude-code")
    before = home.files()
    home.run("install", "claude-code")
    moved = tmp_path / "elsewhere" / "reasonbank"
    moved.parent.mkdir()
    home.program.rename(moved)
    home.program = moved
    home.run("install", "claude-code")
    assert str(tmp_path / "bin") not in (home.folder / ".claude/settings.json").read_text()
    assert home.read(".claude.json")["mcpServers"]["reasonbank"]["command"] == str(moved)
    home.run("uninstall", "claude-code")
    assert home.files() == before


def test_what_somebody_wrote_by_hand_is_left_until_it_is_asked_for(home):
    mine = '{"mcpServers": {"reasonbank": {"command": "mine", "args": ["mcp"], "env": {"A": "1"}}}}'
    path = home.write(".claude.json", mine)
    assert "--replace" in home.run("install", "claude-code")
    assert path.read_text() == mine
    assert home.read(".claude/settings.json")["permissions"]["allow"] == ["mcp__reasonbank"]
    home.run("uninstall", "claude-code")
    assert path.read_text() == mine and not (home.folder / ".claude").exists()
    home.run("install", "claude-code", "--replace")
    assert home.read(".claude.json")["mcpServers"]["reasonbank"]["command"] == str(home.program)
    home.run("uninstall", "claude-code")
    assert path.read_text() == mine


def test_a_hook_of_the_user_in_our_group_stays(home):
    home.run("install", "claude-code")
    settings = home.read(".claude/settings.json")
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    home.write(".claude/settings.json", json.dumps(settings))
    home.run("uninstall", "claude-code")
    left = [{"hooks": [{"type": "command", "command": "say done"}]}]
    assert home.read(".claude/settings.json") == {"hooks": {"Stop": left}}


def test_a_permission_that_was_there_before_stays(home):
    text = '{"permissions": {"allow": ["mcp__reasonbank"]}}'
    path = home.write(".claude/settings.json", text)
    home.run("install", "claude-code")
    path.write_text(path.read_text() + "\n")
    home.run("uninstall", "claude-code")
    assert json.loads(path.read_text()) == json.loads(text)


def test_a_dry_run_shows_the_same_and_changes_nothing(home):
    home.seed("gemini-cli")
    before = home.files()
    said = home.run("install", "gemini-cli", "--dry-run")
    assert "would be changed" in said and '+    "mcpServers": {' in said
    assert home.files() == before and not (home.folder / ".local").exists()
    assert home.json("install", "gemini-cli", "--dry-run")["changes"][0]["action"] == "changed"


def test_without_a_name_it_says_what_it_would_do_for_the_agents_that_are_here(home):
    assert "No agent was found" in home.run("install")
    home.seed("codex")
    said = home.run("install")
    assert "config.toml: would be changed" in said and "install all" in said
    assert "mcp_servers.reasonbank" not in (home.folder / ".codex/config.toml").read_text()
    home.run("install", "all")
    assert "mcp_servers.reasonbank" in (home.folder / ".codex/config.toml").read_text()
    assert not (home.folder / ".claude.json").exists()


@pytest.mark.parametrize(
    ("agent", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "x/.claude.json"),
        ("codex", "CODEX_HOME", "x/config.toml"),
        ("gemini-cli", "GEMINI_CLI_HOME", "x/.gemini/settings.json"),
        ("qwen-code", "QWEN_HOME", "x/settings.json"),
        ("copilot-cli", "COPILOT_HOME", "x/mcp-config.json"),
        ("opencode", "XDG_CONFIG_HOME", "x/opencode/opencode.json"),
        ("opencode", "OPENCODE_CONFIG_DIR", "x/opencode.json"),
    ],
)
def test_the_folder_that_an_agent_is_told_is_where_it_is_written(home, agent, variable, file):
    home.run("install", agent, **{variable: str(home.folder / "x")})
    assert "reasonbank" in (home.folder / file).read_text()


@requirement("CLI-2")
def test_in_a_project_it_names_no_path_of_this_machine(home, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    home.run("install", *NAMES, "--project", cwd=project)
    written = [path for path in project.rglob("*") if path.is_file()]
    assert len(written) == 12
    assert not [path for path in written if str(tmp_path) in path.read_text()]
    assert not [path for path in home.folder.rglob("*") if ".local" not in path.parts]
    home.run("uninstall", "all", "--project", cwd=project)
    assert not [*project.iterdir()]


def test_another_project_and_another_bank_can_be_named(home, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    home.run("install", "claude-code", "--workspace", str(project), rc=2)
    words = ("--project", "--workspace", str(project), "--bank", "sqlite:///b.db")
    home.run("install", "claude-code", *words)
    said = (project / ".mcp.json").read_text() + (project / ".claude/settings.json").read_text()
    assert '"--bank", "sqlite:///b.db"' in said
    assert "hook prompt --agent claude-code --bank sqlite:///b.db" in said
    home.run("uninstall", "claude-code", "--project", "--workspace", str(project))
    assert not [*project.iterdir()]


@pytest.mark.parametrize("agent", NAMES)
def test_over_http_each_project_names_itself_and_no_file_holds_a_token(home, tmp_path, agent):
    project = tmp_path / "project"
    project.mkdir()
    home.run("install", agent, "--http", "http://127.0.0.1:8321", rc=2)
    home.run("install", agent, "--http", "http://127.0.0.1:8321/", "--project", cwd=project)
    said = "".join(path.read_text() for path in project.rglob("*") if path.is_file())
    assert '"http://127.0.0.1:8321/mcp"' in said and str(project) in said
    assert "REASONBANK_TOKEN" in said
    home.run("uninstall", agent, "--project", cwd=project)
    assert not [*project.iterdir()]


def test_rights_and_links_stay_and_copies_are_for_their_owner(home):
    real = home.write("dotfiles/claude.json", '{"oauth": "dear"}')
    real.chmod(0o640)
    (home.folder / ".claude.json").symlink_to(real)
    home.run("install", "claude-code")
    assert (home.folder / ".claude.json").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    [copy] = real.parent.glob("*.bak")
    assert copy.read_text() == '{"oauth": "dear"}' and stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_a_copy_is_made_once_for_each_state_and_never_over_another(home):
    path = home.write(".qwen/settings.json", '{"a": 1}')
    for state in ('{"a": 1}', '{"a": 2}', '{"a": 1}'):
        path.write_text(state)
        home.run("install", "qwen-code")
    copies = {each.read_text() for each in path.parent.glob("*.bak")}
    assert copies == {'{"a": 1}', '{"a": 2}'}


def test_a_line_of_the_user_with_a_secret_is_not_shown(home):
    secret = "sk-ant-" + "api03-" + "Zx9" * 20
    home.write(".gemini/settings.json", f'{{\n  "key": "{secret}"\n}}\n')
    assert secret not in home.run("install", "gemini-cli")


@requirement("CLI-2")
def test_two_hundred_malformed_configs_are_left_alone_and_told_with_their_place(home):
    dice = random.Random(18)
    homes = {name: {k: v.encode() for k, v in seed.items()} for name, seed in SEEDS.items()}
    refused = 0
    for _ in range(1000):
        agent = dice.choice([*homes])
        name = dice.choice([*homes[agent]])
        data = _broken(dice, homes[agent][name])
        path = home.write(name, data)
        wish, environment = Wish(), {"HOME": str(home.folder)}
        made = plan.installing([agent], wish, environment)
        if not made.problems:  # It can still be read: then it is also undone.
            plan.install(made, environment)
            plan.uninstall(plan.uninstalling([agent], wish, environment), environment)
            assert path.read_bytes() == data
        else:
            said = home.run("install", agent, rc=2)
            assert f"{path}: line " in said and ", column " in said
            assert path.read_bytes() == data and not [*path.parent.glob("*.bak")]
            refused += 1
        shutil.rmtree(home.folder)
        home.folder.mkdir()
        if refused == 200:
            break
    assert refused == 200


def _broken(dice, data):
    at = dice.randrange(len(data))
    match dice.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return (
                data[:at]
                + dice.choice([b"{", b"}", b'"', b",", b"]", b"=", b":", b"/*"])
                + data[at:]
            )
        case 2:
            return data[:at] + bytes([dice.randrange(128, 256)]) + data[at:]
        case 3:
            return dice.choice(
                [b"[]", b"null", b'"x"', b"{'a': 1}", b"\x00", b"<xml/>", b"[" * 9999]
            )
    return data[:at] + data[at + 1 + dice.randrange(4) :]


@pytest.mark.parametrize("text", ["mcp_servers = { a = { command = 'x' } }", "mcp_servers = 3"])
def test_a_form_that_no_table_can_be_added_to_is_told_with_its_place(home, text):
    path = home.write(".codex/config.toml", text)
    said = home.run("install", "codex", rc=2)
    assert re.search(r"config.toml: line \d, column 1: our entry does not fit", said)
    assert path.read_text() == text and not (home.folder / ".codex/hooks.json").exists()


def test_one_agent_that_cannot_be_written_does_not_keep_the_others_waiting(home):
    (home.folder / ".claude.json").mkdir()
    home.seed("qwen-code")
    said = home.run("install", "claude-code", "qwen-code", rc=2)
    assert "claude-code" in said and "not a regular file" in said
    assert "reasonbank" in (home.folder / ".qwen/settings.json").read_text()
    assert not (home.folder / ".claude").exists()


def test_a_program_and_a_bank_with_spaces_in_their_names(home, tmp_path):
    home.seed("claude-code")
    before = home.files()
    moved = tmp_path / "b in" / "reasonbank"
    moved.parent.mkdir()
    home.program = home.program.rename(moved)
    for bank in ("sqlite:///a b.db", "sqlite:///b c.db"):
        home.run("install", "claude-code", "--bank", bank)
    stop = home.read(".claude/settings.json")["hooks"]["Stop"]
    [command] = [hook["command"] for group in stop for hook in group["hooks"]]
    assert shlex.split(command)[0] == str(moved) and shlex.split(command)[-1] == "sqlite:///b c.db"
    home.run("uninstall", "claude-code")
    assert home.files() == before


@pytest.mark.parametrize("moment", ["copy", "note", "file"])
def test_killed_in_between_it_leaves_a_whole_file_that_uninstall_puts_right(home, moment):
    """The program is killed just before it puts a file in its place."""
    path = home.write(".claude/settings.json", CLAUDE)
    before = home.files()
    turn = {"copy": 3, "note": 4, "file": 5}[moment]  # The first two are those of .claude.json.
    code = (
        "import os, signal, sys\n"
        "count, place = 0, os.replace\n"
        "def replace(*names):\n"
        "    global count\n"
        "    count += 1\n"
        f"    if count == {turn}: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    place(*names)\n"
        "os.replace = replace\n"
        "from reasonbank.surfaces.cli import main\n"
        f"sys.argv = [{str(home.program)!r}, 'install', 'claude-code']\n"
        "main()\n"
    )
    environment = {"HOME": str(home.folder), "PATH": "/usr/bin:/bin",
                   "PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == CLAUDE
    home.run("uninstall", "claude-code")
    left = {name: what for name, what in home.files().items() if not name.endswith("-part")}
    assert left == before


def test_every_agent_has_a_plug():
    assert [*PLUGS] == NAMES
