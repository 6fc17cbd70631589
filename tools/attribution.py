"""Write the file that says whose texts the packaged embedding model was trained on.

    python -m tools.attribution

The wheel carries it beside the weights: CC BY asks for it, and the other licences like it.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from reasonbank.embed.minilm import FOLDER
from tools.train_embedding.sources import Source, table

FILE = Path(FOLDER) / "ATTRIBUTION.txt"
ADDRESSES = {
    "CC-BY-3.0": "https://creativecommons.org/licenses/by/3.0/",
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
}
HEAD = """\
reasonbank-minilm-1 is a modified version of all-MiniLM-L6-v2 (sentence-transformers; Apache-2.0,
see LICENSE.model). It was tuned on texts from the public repositories below, each under the
licence named, as read at the commit named. Texts were cut, paired, filtered and made noisy; none
of them is part of this package. That a holder is named here does not mean that they endorse it.
"""


def text(sources: list[Source]) -> str:
    trained = [source for source in sources if source.use == "train"]
    trained.sort(key=lambda source: (source.licence, source.repository.lower(), source.commit))
    lines = [HEAD]
    for licence, rows in groupby(trained, key=lambda source: source.licence):
        address = ADDRESSES.get(licence)
        lines.append(f"{licence} ({address})" if address else licence)
        told = (f"  {each.holder}: https://github.com/{each.repository}"
                f" ({each.commit[:12]}, {each.licence_file})" for each in rows)  # fmt: skip
        lines += [*dict.fromkeys(told), ""]
    return "\n".join(lines)


def main() -> None:
    FILE.write_text(text(table()), "utf-8")
    print(f"wrote {FILE.name}")


if __name__ == "__main__":
    main()
