"""Runs a Python command in the box, and says how it ended in a way that it cannot say itself.

A verifier's own code runs here, and the solution that it imports in another process. Code of
the solution alone (a program, or tests that came with it) runs in a process that is watched:
one that ends before its last line has not passed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn

from . import near

SET_DUMPABLE = 4
FAILED = 1
DONE = b"done"


def main(program: str) -> None:
    words = sys.argv[1:]
    with open(os.path.join(os.path.dirname(program), "config.json"), encoding="utf-8") as file:
        config: dict[str, Any] = json.load(file)
    folder = config["task"]
    target = _target(words)
    if not target:
        os.execv(sys.executable, [sys.executable, *words])  # nosec B606  # in the box
    command = Command(target, folder, config)
    if command.apart:
        near.install(folder, config["own"], *_other_process(folder))
        sys.path.insert(0, command.place)
        sys.exit(command.run())
    else:
        _watch(command)


def _other_process(folder: str) -> tuple[int, int]:
    """The process of the solution, made while there is nothing in this one to find."""
    asked, ask = os.pipe()
    heard, answer = os.pipe()
    _look_inside(False)
    if os.fork() == 0:
        from . import far

        _look_inside(True)
        os.close(ask)
        os.close(heard)
        sys.argv = [""]
        far.serve(asked, answer, folder)
        # Its threads and its last wishes have no say.
        os._exit(0)
    os.close(asked)
    os.close(answer)
    return heard, ask


def _target(words: list[str]) -> list[str]:
    """What is to be run, without the interpreter's own options; nothing if it is to be told."""
    while words and words[0].startswith("-") and words[0] not in ("-c", "-m"):
        words = words[2 if words[0] in ("-W", "-X") else 1 :]
    return [] if words in (["-c"], ["-m"]) else words


class Command:
    """``-c code``, ``-m module`` or a script, as Python takes it."""

    def __init__(self, words: Sequence[str], folder: str, config: dict[str, Any]) -> None:
        self.how = words[0] if words[0] in ("-c", "-m") else ""
        self.what, *self.rest = words[1:] if self.how else words
        self._folder = folder
        self._own = {os.path.join(folder, name) for name in config["own"]}
        has_checks = bool(config["own"] or config["checks"])
        path = os.path.abspath(self.what)
        self.place = folder if self.how else os.path.dirname(path)
        if self.how == "-c":
            self.apart = True
        elif self.how == "-m":
            self.apart = has_checks and not self._is_solutions(*self.what.split("."))
        else:
            inside = path.startswith(f"{folder}/")
            # A tool such as pytest brings no checks of its own.
            self.apart = path in self._own if inside else has_checks
        text = "" if self.how == "-m" else self._code()
        self._counted = [name for name in ("unittest", "pytest")
                         if name in text or self.what.partition(".")[0] == name]  # fmt: skip

    def _is_solutions(self, *names: str) -> bool:
        if importlib.util.find_spec(names[0]) is not None:
            return False
        return os.path.join(self._folder, *names) + ".py" not in self._own

    def _code(self) -> str:
        if self.how == "-c":
            return self.what
        try:
            with open(self.what, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def run(self) -> int:
        counts = Counts(self._counted, self._own if self.apart else None, self._folder)
        sys.argv = ["-c" if self.how == "-c" else self.what, *self.rest]
        try:
            self._go()
            code = 0
        except SystemExit as error:
            code = _code(error)
        except BaseException as error:  # noqa: BLE001 - as the interpreter does.
            _show(error)
            code = FAILED
        if code == 0 and near.ended_early():
            _say("The solution ended its own process.")
            code = FAILED
        if code == 0 and (why := counts.missing()):
            _say(why)
            code = FAILED
        return code

    def _go(self) -> None:
        if self.how == "-m":
            import runpy

            runpy.run_module(self.what, run_name="__main__", alter_sys=True)
            return
        main = types.ModuleType("__main__")
        vars(main)["__builtins__"] = __builtins__
        sys.modules["__main__"] = main
        name = "<string>"
        if not self.how:
            name = main.__file__ = os.path.abspath(self.what)
            with open(self.what, "rb") as file:
                code = compile(file.read(), name, "exec")
        else:
            code = compile(self.what, name, "exec")
        exec(code, vars(main))  # nosec B102  # as Python would run it, in the box


class Counts:
    """How many tests ran: a run of none has shown nothing."""

    def __init__(self, tools: Sequence[str], own: set[str] | None, folder: str) -> None:
        self._ran: dict[str, int] = {}
        self._own, self._folder = own, folder
        if "unittest" in tools:
            self._unittest()
        if "pytest" in tools:
            self._pytest()

    def missing(self) -> str:
        empty = [tool for tool, ran in self._ran.items() if ran == 0]
        return f"No test of {empty[0]} passed." if empty else ""

    def _unittest(self) -> None:
        import unittest.runner

        run, ran = unittest.runner.TextTestRunner.run, self._ran

        def counted(self: Any, test: Any) -> Any:
            result = run(self, test)
            passed = result.testsRun - len(result.skipped)
            ran["unittest"] = ran.get("unittest", 0) + max(0, passed)
            return result

        unittest.runner.TextTestRunner.run = counted  # type: ignore[method-assign]

    def _pytest(self) -> None:
        name, ran = "reasonbank_counts", self._ran
        plugin: Any = types.ModuleType(name, "PYTEST_DONT_REWRITE")
        own, folder = self._own, self._folder

        def pytest_configure(config: Any) -> None:
            ran.setdefault("pytest", 0)
            # Its own processes have no such module.
            os.environ.pop("PYTEST_PLUGINS", None)

        def pytest_runtest_logreport(report: Any) -> None:
            if report.when == "call" and report.passed:
                ran["pytest"] += 1

        def pytest_ignore_collect(collection_path: Any) -> bool | None:
            path = str(collection_path)
            inside = own is not None and path.startswith(f"{folder}/")
            return True if inside and os.path.isfile(path) and path not in (own or ()) else None

        plugin.pytest_configure = pytest_configure
        plugin.pytest_runtest_logreport = pytest_runtest_logreport
        plugin.pytest_ignore_collect = pytest_ignore_collect
        sys.modules[name] = plugin
        os.environ["PYTEST_PLUGINS"] = name


def _watch(command: Command) -> NoReturn:
    heard, say = os.pipe()
    _look_inside(False)
    child = os.fork()
    if child == 0:
        _look_inside(True)
        os.close(heard)
        sys.path.append(command.place)
        code = command.run()
        if code == 0:
            os.write(say, DONE)
        os.close(say)
        sys.exit(code)
    os.close(say)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # What it left running may hold the other end open.
    os.set_blocking(heard, False)
    try:
        done = os.read(heard, len(DONE)) == DONE
    except BlockingIOError:
        done = False
    if code == 0 and not done:
        _say("The program ended itself before its end.")
        code = FAILED
    sys.stderr.flush()
    os._exit(code if code >= 0 else 128 - code)


def _look_inside(allowed: bool) -> None:
    """Whether others of the same user may look into this process; before they are there."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, int(allowed), 0, 0, 0)


def _code(error: SystemExit) -> int:
    if getattr(error, "_by_solution", False):
        _show(error)
        return FAILED
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    _say(str(error.code))
    return FAILED


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _show(error: BaseException) -> None:
    import traceback

    traceback.print_exception(error)
