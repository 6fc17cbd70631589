"""`reasonbank` with an embedding model of another name, as after an upgrade of the program.

    python other_model.py NAME FILE ARGUMENT…

What it embeds is written to FILE, a line each. ``new-…`` takes the vectors of ``old-…``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from reasonbank import opening
from reasonbank.embed.calibration import CALIBRATIONS, EmbeddingCalibration
from reasonbank.embed.hashed import Hashed

NEW = EmbeddingCalibration(model="new", threshold=0.1, compatible=("old",))


class Named(Hashed):
    semantic = True

    def __init__(self, name: str, told: Path | None = None) -> None:
        self.name = name
        self.told = told

    def embed(self, texts: Any) -> Any:
        if self.told is not None:
            lines = "".join(f"{text.splitlines()[0]}\n" for text in texts)
            file = os.open(self.told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(file, lines.encode())
            os.close(file)
        return super().embed(texts)


if __name__ == "__main__":
    name, told, *arguments = sys.argv[1:]
    CALIBRATIONS[NEW.model] = NEW
    opening.embedder_of = lambda *_: Named(name, Path(told))
    from reasonbank.surfaces.cli import main

    sys.argv = ["reasonbank", *arguments]
    main()
