"""The page as files: small, plain, whole in the package."""

import gzip
import re
import tomllib
from pathlib import Path

import click
from tests.requirement import requirement

from reasonbank.surfaces.cli.shell import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src/reasonbank/surfaces/http/page"
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
MOST = 150_000


@requirement("WEB-1")
def test_all_of_it_is_small():
    size = sum(len(gzip.compress(path.read_bytes())) for path in FILES)
    assert 0 < size < MOST, size


@requirement("WEB-1")
def test_nothing_is_fetched_from_elsewhere_and_no_code_is_inline():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        found = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not found, (path, found)
        assert "innerHTML" not in text and "eval(" not in text, path
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", index)


def test_every_module_that_is_imported_is_there():
    for path in FILES:
        if path.suffix == ".js":
            for name in re.findall(r'(?:from|import\()\s*"(\.[^"]+)"', path.read_text()):
                assert (path.parent / name).resolve().is_file(), (path, name)


def test_the_package_takes_the_files_with_it():
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert built["targets"]["wheel"]["packages"] == ["src/reasonbank"]
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert not {"page", "*.js", "*.css", "*.html", "*.svg"} & set(ignored)


def options_of(words: list[str]) -> set[str]:
    """What the command of these words takes; where a word is no command, it is an argument."""
    found: click.Command = main
    for word in words:
        if isinstance(found, click.Group):
            given = found.get_command(click.Context(found), word)
            assert given is not None, words
            found = given
    params = found.get_params(click.Context(found))
    return {option for param in params for option in (*param.opts, *param.secondary_opts)}


TO_RUN = re.compile(r"[\"`'>]reasonbank ([^`'<;]*?)[\"`'<;]")


@requirement("WEB-1")
def test_every_command_that_it_tells_somebody_to_run_can_be_run():
    sources = [path.read_text(encoding="utf-8") for path in FILES if path.suffix == ".js"]
    told = {words for text in sources for words in TO_RUN.findall(text)}
    assert len(told) > 10
    for words in sorted(told):
        parts = words.split()
        options = {part for part in parts if part.startswith("--")}
        names = [part for part in parts if re.fullmatch("[a-z]+", part)]
        assert options <= options_of(names), words
