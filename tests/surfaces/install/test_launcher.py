"""What is written into configs starts ReasonBank tomorrow as well."""

import sys

import pytest

from reasonbank.surfaces.install import launcher


@pytest.fixture
def program(tmp_path):
    def made(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
        return path

    return made


def test_a_link_on_the_path_is_not_followed(program, tmp_path):
    real = program("tools/reasonbank/bin/reasonbank")
    link = tmp_path / "bin" / "reasonbank"
    link.parent.mkdir()
    link.symlink_to(real)
    environment = {"PATH": str(link.parent)}
    assert launcher.launcher(str(link), environment) == (str(link),)
    assert launcher.launcher("reasonbank", environment) == (str(link),)


@pytest.mark.parametrize("cache", ["archive-v0/q1W2e3", "environments-v2/reasonbank-1a2b"])
def test_an_environment_of_uvx_is_not_named_but_made_again(program, cache):
    uvx = program("uv/bin/uvx")
    argument = str(program(f".cache/uv/{cache}/bin/reasonbank"))
    assert launcher.launcher(argument, {"PATH": str(uvx.parent)}) == (str(uvx), "reasonbank")
    named = {"PATH": "", "UV": str(program("uv/bin/uv"))}
    assert launcher.launcher(argument, named) == (str(uvx), "reasonbank")


def test_nor_is_one_of_pipx_run(program):
    pipx = program("bin/pipx")
    argument = str(program(".cache/pipx/0123456789abcdef/bin/reasonbank"))
    found = launcher.launcher(argument, {"PATH": str(pipx.parent)})
    assert found == (str(pipx), "run", "reasonbank")
    kept = str(program(".local/share/pipx/venvs/reasonbank/bin/reasonbank"))
    assert launcher.launcher(kept, {"PATH": ""}) == (kept,)


def test_without_a_program_python_starts_the_module(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    found = launcher.launcher("/x/__main__.py", {"PATH": ""})
    assert found == (str(tmp_path / "python"), "-m", "reasonbank.surfaces.cli")
