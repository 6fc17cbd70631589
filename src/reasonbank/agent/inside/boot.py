"""The first file that runs: finds the others beside it, and leaves no trace on the path."""

from __future__ import annotations

import importlib
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [here, *(place for place in sys.path if place != here)]
start = importlib.import_module("reasonbank_inside.start")
del sys.path[0]
start.main(os.path.abspath(__file__))
