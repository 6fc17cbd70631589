"""Measurements: each prints a table and writes its numbers to ``bench/results``."""

import os

# On a busy machine a second BLAS thread is waited for, by some contestants and not by others.
# To be set before numpy is loaded; a value in the environment wins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
