"""A real terminal, as wide as somebody's window, and what a command writes to it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.cells import cell_len

COMMAND = str(Path(sys.executable).with_name("reasonbank"))


def at_a_terminal(arguments, environment, *, columns=80, command=(COMMAND,)):
    """What is seen, without colours, and the exit code."""
    far, near = pty.openpty()
    fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    here = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    running = subprocess.Popen(
        [*command, *arguments], stdin=near, stdout=near, stderr=near, start_new_session=True,
        env=here | {"TERM": "xterm-256color"} | environment,
    )  # fmt: skip
    os.close(near)
    seen = b""
    while True:
        try:
            part = os.read(far, 65536)
        except OSError:  # On Linux, the end of the other side.
            break
        if not part:
            break
        seen += part
    os.close(far)
    return without_colours(seen.decode()), running.wait()


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


def too_wide(text, columns=80):
    return [line for line in text.splitlines() if cell_len(line) > columns]
