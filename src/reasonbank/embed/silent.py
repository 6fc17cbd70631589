"""onnxruntime, which since 1.29 reports to its makers from the moment it is imported."""

from __future__ import annotations

import os
from typing import Any


def onnxruntime() -> Any:
    """Import it without its telemetry: nothing leaves this machine unasked.

    The thread that sends would also keep a forked process from ever ending.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime
