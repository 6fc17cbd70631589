"""Configs as people write them: comments anywhere, any indentation, any line ends."""

import json

from hypothesis import strategies as st

NAMES = st.text("abcdeö \"\\/'", min_size=1, max_size=6)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-99, 99), st.sampled_from(["", "// no", "/* x */", ",}"]),
    st.text("ab\"\\{}[],:/*\nö", max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)


@st.composite
def texts(draw, documents=DOCUMENTS):
    """A document and one of the texts that say it."""
    document = draw(documents)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    unit = draw(st.sampled_from(["  ", "    ", "\t", ""]))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    comments = draw(st.booleans())
    commas = draw(st.booleans())

    def trivia():
        if not comments:
            return ""
        return draw(st.sampled_from(
            ["", "", "", " ", f"// a {{ \" note{newline}", "/* two */", f"/* 3{newline} , */ "]
        ))  # fmt: skip

    def written(value, depth):
        inner = newline + unit * (depth + 1) if unit else " "
        end = (newline + unit * depth if unit else "") + trivia()
        if isinstance(value, dict) and value:
            parts = [
                f"{inner}{trivia()}{json.dumps(k, ensure_ascii=False)}{trivia()}:{trivia()} "
                f"{written(v, depth + 1)}{trivia()}"
                for k, v in value.items()
            ]
        elif isinstance(value, list) and value:
            parts = [f"{inner}{trivia()}{written(v, depth + 1)}{trivia()}" for v in value]
        elif isinstance(value, dict | list):
            left, right = "{}" if isinstance(value, dict) else "[]"
            return f"{left}{trivia()}{right}"
        else:
            return json.dumps(value, ensure_ascii=False)
        left, right = "{}" if isinstance(value, dict) else "[]"
        return f"{left}{','.join(parts)}{',' if commas else ''}{end}{right}"

    return (
        document,
        f"{bom}{trivia()}{written(document, 0)}{trivia()}{draw(st.sampled_from(['', newline]))}",
    )
