"""A process that forks while its threads write: the parent goes on, and the child is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fault_tools import open_bank
from tests.requirement import requirement

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

SCRIPT = """
import faulthandler, json, multiprocessing, os, sys, threading, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tools!r})
from pathlib import Path
from fault_tools import a_memory, open_bank
from reasonbank.errors import StorageError
from reasonbank.model import Memory

path = Path({path!r})
told, stop = [], threading.Event()
bank = open_bank(path)
first = bank.record(a_memory("The first"))


def write(number):
    count = 0
    while not stop.is_set():
        told.append(bank.record(a_memory(f"thread {{number}} memory {{count}}")).title)
        bank.search("memory", session=f"{{number}} {{count}}")
        bank.statistics()
        count += 1


def refused(call):
    try:
        call()
    except StorageError as error:
        return "fork" in str(error)
    return False


def child():
    faulthandler.dump_traceback_later(15)  # Where it hangs, if it does.
    calls = [
        lambda: bank.record(a_memory("By the child")), lambda: bank.search("memory"),
        lambda: bank.get(first.id), lambda: bank.statistics(), lambda: bank.memories(),
        lambda: bank.forget(first.id), lambda: bank.export(sys.stdout), lambda: bank.store.flush(),
        lambda: ledger.read(), lambda: ledger.cached_read(), lambda: ledger.version(),
        lambda: ledger.write(print), lambda: open_bank(path), lambda: open_bank(other),
    ]
    told = [refused(call) for call in calls]
    bank.close()
    ledger.close()
    sys.exit(0 if all(told) else 3)


ledger, other = bank.store.ledger, path.with_name("other.db")
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
codes = []
for round in range(40):
    if round % 2:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(20)
        codes.append(process.exitcode)
        process.kill()
    else:
        pid = os.fork()
        if pid == 0:
            child()  # Python ends as it does, and takes all objects down.
        deadline = time.monotonic() + 20
        done = 0, None
        while not done[0] and time.monotonic() < deadline:
            done = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.002)
        codes.append(os.waitstatus_to_exitcode(done[1]) if done[0] else None)
        if not done[0]:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
stop.set()
for thread in threads:
    thread.join(30)
bank.close()
print(json.dumps([codes, told]))
"""


@requirement("MEM-9")
def test_a_fork_while_four_threads_write_ends_in_both_and_doubles_nothing(path: Path) -> None:
    script = SCRIPT.format(tools=str(Path(__file__).parent), path=str(path))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    codes, told = json.loads(done.stdout)
    assert codes == [0] * len(codes), f"None is a child that hung, 3 one that was not told: {codes}"
    with open_bank(path) as bank:
        there = [memory.title for memory in bank.memories(limit=1_000_000)]
        assert sorted(there) == sorted([*told, "The first"])
        assert bank.store.ledger.check() == []
        uses = bank.store.ledger.read().db.one(
            "select count(*), count(distinct json_extract(payload, '$.session')) from events"
            " where what = 'memory.used'"
        )
        assert uses is not None and uses[0] == uses[1] > 0, "each search was counted once"


def test_a_process_that_forks_when_its_banks_are_closed_can_use_them_in_the_child(
    path: Path,
) -> None:
    script = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from fault_tools import a_memory, open_bank
path = Path({str(path)!r})
with open_bank(path) as bank:
    bank.record(a_memory("By the parent"))
del bank
pid = os.fork()
if pid == 0:
    with open_bank(path) as bank:
        bank.record(a_memory("By the child"))
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
with open_bank(path) as bank:
    assert len(bank.memories()) == 2
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
