"""A hook that says a mark at every event, in the words of `formats`, and notes what it was told."""

import json
import os
import sys
from pathlib import Path

from reasonbank.surfaces.agents import Event
from reasonbank.surfaces.hooks import formats


def main() -> None:
    event, agent = Event(sys.argv[2]), sys.argv[4]
    payload = json.loads(sys.stdin.read())
    told = formats.read(agent, event, payload)
    noted = Path.home() / "told"
    noted.mkdir(exist_ok=True)
    fields = {name: getattr(told, name) for name in told.__slots__}
    (noted / f"{len(os.listdir(noted)):03d}.json").write_text(json.dumps(fields))
    text = f"MARK-{event}-OF-{told.name}"
    sys.stdout.write(formats.context(told, text) or formats.question(told, text))


if __name__ == "__main__":
    main()
