"""A program that forks while others of its threads compute does not hang."""

import subprocess
import sys

from tests.requirement import requirement

FORKS = """
import os, sys, threading
import numpy as np
from reasonbank.forking import computation

stop = threading.Event()


def compute():
    vectors = np.ones((400, 384), np.float32)
    while not stop.is_set():
        with computation():
            vectors @ vectors.T


threads = [threading.Thread(target=compute) for _ in range(4)]
for thread in threads:
    thread.start()
codes = set()
for _ in range(100):
    with computation():  # Whoever forks may compute itself.
        pid = os.fork()
        if not pid:
            with computation():
                os._exit(7)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
print(codes)
"""


@requirement("MEM-9")
def test_a_fork_waits_for_what_other_threads_compute():
    told = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == "{7}\n"
