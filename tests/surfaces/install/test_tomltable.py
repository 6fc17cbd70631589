"""One table of a TOML file comes and goes; the others stay, byte for byte."""

import tomllib

import pytest
from hypothesis import given, strategies as st

from reasonbank.surfaces.install import tomltable
from reasonbank.surfaces.install.edits import applied
from reasonbank.surfaces.install.jsonc import Malformed

PATH = ("mcp_servers", "reasonbank")
ENTRIES = {"command": "/opt/b in/reasonbank", "args": ["mcp", "--tools", "core"], "on": True}
LINES = st.sampled_from([
    "", "# a note", 'model = "x"', "[a]", "[mcp_servers.other]", 'command = "y"  # z', "[[list]]",
    's = """', "[mcp_servers.reasonbank]", '"""', "m = [", "  [1, 2],", "]", "[ a . 'b' ]",
    "[mcp_servers.reasonbank.env]", 'K = "v"', '[mcp_servers."reasonbank"]', "t = { u = 1 }",
])  # fmt: skip


def without(tree):
    tree = {**tree, "mcp_servers": {**tree.get("mcp_servers", {})}}
    tree["mcp_servers"].pop("reasonbank", None)
    return tree


@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_the_table_is_put_and_removed_and_all_else_reads_the_same(lines, newline, ends, bom):
    text = ("\ufeff" if bom else "") + newline.join(lines) + (newline if ends else "")
    try:
        before = tomltable.parse(text)
    except Malformed:
        return
    after = applied(text, tomltable.put(text, PATH, ENTRIES))
    now = tomltable.parse(after)
    assert now["mcp_servers"]["reasonbank"] == ENTRIES
    assert without(now) == without(before)
    gone = applied(after, tomltable.remove(after, PATH))
    assert without(tomltable.parse(gone)) == without(before)
    assert "reasonbank" not in tomltable.parse(gone).get("mcp_servers", {})
    if "reasonbank" not in before.get("mcp_servers", {}) and (ends or not text.strip("\ufeff")):
        assert gone.rstrip("\r\n") == text.rstrip("\r\n")


def test_comments_below_the_table_stay_with_the_next():
    text = "[mcp_servers.reasonbank]\ncommand = 'x'\n\n# about b\n[b]\nc = 1\n"
    gone = applied(text, tomltable.remove(text, PATH))
    assert gone == "\n# about b\n[b]\nc = 1\n"


@pytest.mark.parametrize(
    ("text", "line", "column"), [("a = 1\nb = = 2\n", 2, 5), ("a = [1,\n", 2, 1), ("[a\n", 1, 3)]
)
def test_a_malformed_file_is_told_with_its_place(text, line, column):
    with pytest.raises(Malformed) as told:
        tomltable.parse(text)
    assert (told.value.line, told.value.column) == (line, column)
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)
