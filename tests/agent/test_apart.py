"""Checks and what they check run apart: they understand each other, and one cannot forge."""

from __future__ import annotations

import sys

import anyio
import pytest

from reasonbank.agent.verify import Verifier
from tests.agent.boxes import OPEN, limits, needs_a_closed_box
from tests.requirement import requirement

CHECK = "from solution import add\nassert add([]) == 0\nassert add([1, 2]) == 3\n"
UNITTEST = """
import unittest
from solution import add

class Adding(unittest.TestCase):
    def test_two(self):
        self.assertEqual(add([1, 2]), 3)

    def test_none(self):
        self.assertAlmostEqual(add([]), 0)

if __name__ == "__main__":
    unittest.main()
"""
PYTEST = """
import pytest
from solution import add

def test_two():
    assert add([1, 2]) == pytest.approx(3)

def test_none():
    assert add([]) == 0
"""
RIGHT = "def add(xs):\n    return sum(xs)\n"

WAYS = {
    "a script": ((sys.executable, "check.py"), {"check.py": CHECK}),
    "a line": ((sys.executable, "-c", CHECK), {}),
    "a shell": (("sh", "-c", "python3 check.py"), {"check.py": CHECK}),
    "unittest in a script": ((sys.executable, "checks.py"), {"checks.py": UNITTEST}),
    "unittest": ((sys.executable, "-m", "unittest", "-q"), {"test_add.py": UNITTEST}),
    "pytest": ((sys.executable, "-m", "pytest", "-q"), {"tests/test_add.py": PYTEST}),
}

FORGED = {
    "ends at import": "import os\nos._exit(0)\n",
    "ends when called": "import os\ndef add(xs): os._exit(0)\n",
    "exits at import": "import sys\nsys.exit(0)\n",
    "exits when called": "def add(xs): raise SystemExit\n",
    "ends in a thread": "import os, threading\nthreading.Timer(0, os._exit, [0]).start()\n"
    "def add(xs):\n    while True: pass\n",
    "becomes another program": "import os\nos.execv('/bin/true', ['true'])\n",
    "has a last wish": "import atexit, os\natexit.register(os._exit, 0)\ndef add(xs): return 7\n",
    "kills whoever asks": "import os\ndef add(xs): os.kill(os.getppid(), 9)\n",
    "stops all it can see": "import os\nfor p in os.listdir('/proc'):\n"
    "    if p.isdigit() and int(p) != os.getpid():\n"
    "        try: os.kill(int(p), 15)\n        except OSError: pass\n",
    "leaves the test out": "import unittest\ndef add(xs): raise unittest.SkipTest('no')\n",
    "leaves the test out by pytest": "try:\n    import pytest\n"
    "except ImportError:\n    pytest = None\n"
    "def add(xs):\n    if pytest: pytest.skip('no', allow_module_level=True)\n    return 7\n",
    "is equal to all": "class Yes:\n"
    "    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
    "    __sub__ = __rsub__ = lambda s, o: 0\n    __hash__ = lambda s: 0\n"
    "    __round__ = __abs__ = lambda s, *a: 0\ndef add(xs): return Yes()\n",
    "is a number that is equal to all": "class Yes(int):\n    __eq__ = lambda s, o: True\n"
    "    __ne__ = lambda s, o: False\n    __sub__ = lambda s, o: 0\n"
    "    __hash__ = int.__hash__\ndef add(xs): return Yes(7)\n",
    "patches unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
    "unittest.TestCase.run = lambda *a: None\ndef add(xs): return 7\n",
    "patches the builtins": "import builtins\nbuiltins.AssertionError = SystemExit\n"
    "builtins.sum = lambda xs: 7\ndef add(xs): return 7\n",
    "prints what a run prints": "print('Ran 2 tests in 0.0s\\n\\nOK\\n2 passed in 0.01s')\n"
    "def add(xs): return 7\n",
    "looks through the frames": "import sys\ndef add(xs):\n    f = sys._getframe()\n"
    "    while f:\n        f.f_globals['add'] = lambda xs: sum(xs)\n        f = f.f_back\n"
    "    return 7\n",
    "takes the place of its checks": "import glob, os\n"
    "for name in glob.glob('**/*.py', recursive=True):\n"
    "    try: open(name, 'w').write('')\n    except OSError: pass\n"
    "    try: os.remove(name)\n    except OSError: pass\ndef add(xs): return 7\n",
    "moves its checks away": "import os\nos.makedirs('elsewhere')\n"
    "for name in os.listdir('.'):\n    try: os.rename(name, 'elsewhere/' + name)\n"
    "    except OSError: pass\ndef add(xs): return 7\n",
    "leaves bytecode": "import os, py_compile\n"
    "open('evil.py', 'w').write('import os; os._exit(0)')\n"
    "for name in ('check', 'checks', 'test_add', 'solution'):\n"
    "    for folder in ('__pycache__', 'tests/__pycache__'):\n"
    "        try: py_compile.compile('evil.py', f'{folder}/{name}.cpython-311.pyc')\n"
    "        except OSError: pass\ndef add(xs): return 7\n",
    "shadows modules": "```python unittest.py\nclass TestCase: pass\ndef main(): pass\n```\n"
    "```python pytest.py\ndef approx(x): return x\n```\n"
    "```python builtins.py\n```\n```python solution.py\ndef add(xs): return 7\n```\n",
    "shadows modules and ends": "```python unittest.py\nimport os; os._exit(0)\n```\n"
    "```python pytest.py\nimport os; os._exit(0)\n```\n"
    "```python runpy.py\nimport os; os._exit(0)\n```\n"
    "```python solution.py\ndef add(xs): return 7\n```\n",
    "forges the answers": "import json, os, struct\n"
    "said = json.dumps({'is': ['type', 'unittest', 'SkipTest'], 'done': True}).encode()\n"
    "for fd in range(3, 64):\n"
    "    try: os.write(fd, struct.pack('!I', len(said)) + said + b'done')\n"
    "    except OSError: pass\ndef add(xs): return 7\n",
}


def judged(way, solution):
    command, files = WAYS[way]
    tests = Verifier(name="apart", command=command, files=files, limits=limits())
    return anyio.run(tests.verify, solution)


@requirement("AGT-2")
@pytest.mark.parametrize("way", WAYS)
def test_a_right_solution_passes_whatever_the_checks_are_run_by(way):
    if way == "a shell" and OPEN:
        pytest.skip("outside a box a shell finds its own Python")
    judged_ = judged(way, RIGHT)
    assert judged_.passed, judged_.report


@requirement("AGT-2")
@pytest.mark.parametrize("forgery", FORGED)
@pytest.mark.parametrize("way", ["a script", "unittest"])
def test_a_wrong_solution_that_forges_does_not_pass(way, forgery):
    assert not judged(way, FORGED[forgery]).passed


@pytest.mark.parametrize(
    "forgery", ["ends when called", "leaves the test out by pytest", "is equal to all",
                "shadows modules and ends", "leaves bytecode"],
)  # fmt: skip
def test_pytest_is_not_fooled_either(forgery):
    assert not judged("pytest", FORGED[forgery]).passed


@needs_a_closed_box
@pytest.mark.parametrize("way", ["a script", "a program"])
def test_the_process_that_judges_cannot_be_looked_into(way):
    look = (
        "import os\nseen = []\nfor pid in (os.getppid(), 1):\n"
        "    for name in ('mem', 'environ', 'fd/1', 'cwd/solution.py'):\n"
        "        try:\n            with open(f'/proc/{pid}/{name}', 'rb'): seen.append(name)\n"
        "        except OSError: pass\nprint('seen:', seen)\ndef add(xs): return sum(xs)\n"
    )
    found = judged(way, look) if way in WAYS else alone(look, "solution.py")
    assert found.passed and "seen: []" in found.report, found.report


# What checks may do with a solution

UNDERSTOOD = {
    "data of many kinds": (
        "import datetime, decimal\n"
        "def same(x): return x\n"
        "def kinds(): return [1, 2.5, 'ü', None, True, b'x', (1, 2), {1, 2}, {'a': [1]}, 1 << 99,"
        " float('inf'), datetime.date(2020, 1, 2), decimal.Decimal('1.10'), range(3)]\n",
        "import datetime, decimal, solution\n"
        "assert solution.kinds() == [1, 2.5, 'ü', None, True, b'x', (1, 2), {1, 2}, {'a': [1]},"
        " 1 << 99, float('inf'), datetime.date(2020, 1, 2), decimal.Decimal('1.10'), range(3)]\n"
        "assert solution.same({(1, 2): 'x'}) == {(1, 2): 'x'}\n",
    ),
    "objects and their methods": (
        "class Stack:\n    def __init__(self): self.items = []\n"
        "    def push(self, x): self.items.append(x); return self\n"
        "    def __len__(self): return len(self.items)\n"
        "    def __contains__(self, x): return x in self.items\n"
        "    def __iter__(self): return iter(self.items)\n"
        "    @property\n    def top(self): return self.items[-1]\n"
        "    @classmethod\n    def of(cls, *xs):\n        s = cls()\n"
        "        for x in xs: s.push(x)\n        return s\n",
        "from solution import Stack\ns = Stack()\nassert s.push(1) is s and s.push(2).top == 2\n"
        "assert len(s) == 2 and 1 in s and 3 not in s and list(s) == [1, 2]\n"
        "assert isinstance(s, Stack) and Stack.of(1, 2, 3).items == [1, 2, 3]\n"
        "s.items = [9]\nassert s.top == 9\n",
    ),
    "errors, its own too": (
        "class Wrong(ValueError):\n"
        "    def __init__(self, n):\n        super().__init__(f'wrong {n}')\n"
        "        self.n = n\n"
        "def f(n):\n    if n < 0: raise Wrong(n)\n    return {}[n]\n"
        "def g():\n    import json\n    json.loads('{')\n"
        "def h():\n    import sys\n    sys.exit(3)\n",
        "import json, solution\n"
        "def raised(kind, f, *a):\n    try: f(*a)\n    except kind as e: return e\n"
        "    raise AssertionError('nothing was raised')\n"
        "assert raised(KeyError, solution.f, 1).args == (1,)\n"
        "e = raised(solution.Wrong, solution.f, -1)\n"
        "assert isinstance(e, ValueError) and str(e) == 'wrong -1' and e.n == -1\n"
        "assert raised(json.JSONDecodeError, solution.g).msg\n"
        "assert raised(SystemExit, solution.h).code == 3\n"
        "assert raised(AttributeError, lambda: solution.nothing)\n",
    ),
    "functions that are called back, and lists that are changed": (
        "def apply(f, xs): return [f(x) for x in xs]\n"
        "def sort(xs, key=None): xs.sort(key=key)\n"
        "def safe(f):\n    try: return f()\n    except KeyError as e: return e.args\n",
        "import solution\nassert solution.apply(lambda x: x * 2, (1, 2)) == [2, 4]\n"
        "assert solution.apply(str, [1]) == ['1'] and solution.apply(abs, [-1]) == [1]\n"
        "xs = ['bb', 'a']\nsolution.sort(xs, key=len)\nassert xs == ['a', 'bb']\n"
        "class Mine(Exception): pass\n"
        "def fail(x): raise Mine(x)\n"
        "try: solution.apply(fail, [1])\nexcept Mine as e: assert e.args == (1,)\nelse: assert 0\n"
        "assert solution.safe(lambda: {}['k']) == ('k',)\n",
    ),
    "generators, coroutines, context managers": (
        "import asyncio, contextlib\n"
        "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\n"
        "async def later(x):\n    await asyncio.sleep(0)\n    return x\n"
        "@contextlib.contextmanager\ndef held(xs):\n    yield 5\n",
        "import asyncio, itertools, solution\n"
        "assert list(itertools.islice(solution.count(), 3)) == [0, 1, 2]\n"
        "assert asyncio.run(solution.later(4)) == 4\n"
        "async def both(): return await asyncio.gather(solution.later(1), solution.later(2))\n"
        "assert asyncio.run(both()) == [1, 2]\n"
        "with solution.held([]) as five: assert five == 5\n",
    ),
    "what it prints and reads": (
        "import os, sys\ndef greet(): print('hello', input('name? '))\n"
        "def total(): return sum(int(line) for line in sys.stdin)\n"
        "def save(name):\n    with open(name, 'w') as f: f.write(os.environ['WHO'])\n",
        "import contextlib, io, os, sys, tempfile, solution\nfrom unittest import mock\n"
        "with contextlib.redirect_stdout(io.StringIO()) as said, "
        "mock.patch('builtins.input', return_value='Ada'): solution.greet()\n"
        "assert said.getvalue() == 'name? hello Ada\\n', said.getvalue()\n"
        "with mock.patch('sys.stdin', io.StringIO('1\\n2\\n')): assert solution.total() == 3\n"
        "os.environ['WHO'] = 'me'\nsolution.save('out.txt')\n"
        "assert open('out.txt').read() == 'me'\n"
        "with tempfile.TemporaryDirectory() as t:\n    os.chdir(t)\n    solution.save('x')\n"
        "    assert open(t + '/x').read() == 'me'\n    os.chdir('/')\n",
    ),
    "values with a class of their own": (
        "import collections, enum\nfrom dataclasses import dataclass\n"
        "class Color(enum.Enum):\n    RED = 1\n    BLUE = 2\n"
        "class Level(enum.IntEnum):\n    LOW = 1\n"
        "Point = collections.namedtuple('Point', 'x y')\n"
        "@dataclass\nclass Pair:\n    a: int\n    b: int\n"
        "    def __add__(self, o): return Pair(self.a + o.a, self.b + o.b)\n"
        "    def __lt__(self, o): return self.a < o.a\n",
        "from solution import Color, Level, Pair, Point\n"
        "assert Color.RED is Color.RED and Color(2) is Color.BLUE and Color.RED != Color.BLUE\n"
        "assert Color.RED.value == 1 and [c.name for c in Color] == ['RED', 'BLUE']\n"
        "assert Level.LOW == 1 and Level.LOW < 2\n"
        "p = Point(1, 2)\nassert p == (1, 2) and p.x == 1 and isinstance(p, tuple)\n"
        "assert Pair(1, 2) == Pair(1, 2) and Pair(1, 2) + Pair(1, 1) == Pair(2, 3)\n"
        "assert Pair(1, 2) != Pair(2, 2) and sorted([Pair(2, 1), Pair(1, 1)])[0].a == 1\n"
        "assert repr(Pair(1, 2)) == 'Pair(a=1, b=2)'\n",
    ),
    "packages, stars and programs": (
        "```python app/__init__.py\nfrom app.core import twice\n```\n"
        "```python app/core.py\nRATE = 2\ndef twice(x): return x * RATE\ndef test_me(): pass\n```\n"
        "```python main.py\nimport sys, app\nprint(app.twice(int(sys.argv[1])))\n```\n",
        "import subprocess, sys, app\nfrom app.core import *\nimport app.core as core\n"
        "from unittest import mock\n"
        "assert app.twice(2) == 4 == twice(2) and 'test_me' not in globals()\n"
        "with mock.patch('app.core.RATE', 5): assert app.twice(2) == 10\n"
        "assert core.twice(2) == 4\n"
        "ran = subprocess.run([sys.executable, 'main.py', '21'], capture_output=True, text=True)\n"
        "assert ran.stdout == '42\\n', ran\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNDERSTOOD)
def test_checks_understand(what):
    solution, check = UNDERSTOOD[what]
    tests = Verifier(
        name="apart", command=(sys.executable, "check.py"), files={"check.py": check},
        limits=limits(),
    )  # fmt: skip
    found = anyio.run(tests.verify, solution)
    assert found.passed, found.report


# Code that is all the solution's


def alone(solution, *command):
    own = Verifier(name="own", command=(sys.executable, *command), limits=limits())
    return anyio.run(own.verify, solution)


def test_a_program_has_passed_when_it_came_to_its_end():
    assert alone("import sys\nif __name__ == '__main__': sys.exit(0)", "solution.py").passed
    for early in ("import os; os._exit(0)", "import os\nif os.fork() == 0: raise ValueError\n"
                  "os._exit(0)", "import os; os.execv('/bin/true', ['true'])"):  # fmt: skip
        ended = alone(early, "solution.py")
        assert not ended.passed and "before its end" in ended.report


def test_tests_that_came_with_a_solution_are_run_and_counted():
    tests = (
        "```python test_it.py\nimport unittest\n"
        "class T(unittest.TestCase):\n    def test_it(self): {}\n```\n"
    )
    for command in (("-m", "unittest"), ("-m", "pytest", "-q")):
        assert alone(tests.format("pass"), *command).passed
        assert not alone(tests.format("self.fail()"), *command).passed
        assert not alone(tests.format("__import__('os')._exit(0)"), *command).passed
    for empty in ("x = 1", tests.format("self.skipTest('no')")):
        assert "No test" in alone(empty, "-m", "unittest").report
    assert not alone("```python unittest.py\nprint('OK')\n```\n", "-m", "unittest").passed
