"""The editor of configs: what is not meant stays, byte for byte, wherever comments stand."""

import json

import pytest
from hypothesis import given, strategies as st
from tests.surfaces.install.config_texts import DOCUMENTS, NAMES, VALUES, texts

from reasonbank.surfaces.install import jsonc
from reasonbank.surfaces.install.edits import applied, merged

COMMENTS = ("// a", "/* two */", "/* 3")


def comments(text):
    return [text.count(comment) for comment in COMMENTS]


def undone(text, edits):
    for edit in reversed(edits):
        assert text[edit.at : edit.at + len(edit.inserted)] == edit.inserted
        text = text[: edit.at] + edit.removed + text[edit.at + len(edit.inserted) :]
    return text


@given(texts())
def test_a_text_is_read_as_what_it_says(case):
    document, text = case
    assert jsonc.parse(text).plain() == document


@given(texts(), st.just("mcpServers"), VALUES)
def test_a_new_member_comes_and_all_else_stays(case, name, value):
    document, text = case
    edits = jsonc.put(text, (name,), value)
    after = applied(text, edits)
    assert jsonc.parse(after).plain() == {**document, name: value}
    assert undone(after, edits) == text
    assert all(not edit.removed.strip() for edit in edits)


@given(texts(DOCUMENTS.filter(bool)), st.data())
def test_a_member_goes_and_comments_stay(case, data):
    document, text = case
    name = data.draw(st.sampled_from(sorted(document)))
    after = applied(text, jsonc.remove(text, (name,)))
    assert jsonc.parse(after).plain() == {k: v for k, v in document.items() if k != name}
    assert list(jsonc.parse(after).plain()) == [k for k in document if k != name]


@given(texts(st.fixed_dictionaries({"a": st.lists(VALUES, max_size=4)})), VALUES)
def test_an_element_is_added_to_a_list_and_taken_out_again(case, value):
    document, text = case
    after = applied(text, jsonc.append(text, ("a",), value))
    assert jsonc.parse(after).plain() == {"a": [*document["a"], value]}
    assert all(now >= was for now, was in zip(comments(after), comments(text), strict=True))
    again = applied(after, jsonc.remove(after, ("a", len(document["a"]))))
    assert jsonc.parse(again).plain() == document


@given(st.dictionaries(NAMES, VALUES, min_size=1), st.data(), VALUES)
def test_a_value_is_replaced_in_its_place(document, data, value):
    name = data.draw(st.sampled_from(sorted(document)))
    text = json.dumps(document, indent=2)
    after = applied(text, jsonc.put(text, (name,), value))
    assert jsonc.parse(after).plain() == {**document, name: value}
    assert list(jsonc.parse(after).plain()) == list(document)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("{}", '{\n  "k": [1]\n}'),
        ('{"a": 1}', '{"a": 1, "k": [1]}'),
        ('{\n\t"a": 1 // why\n}\n', '{\n\t"a": 1, // why\n\t"k": [1]\n}\n'),
        ('{\r\n    "a": 1,\r\n}\r\n', '{\r\n    "a": 1,\r\n    "k": [1],\r\n}\r\n'),
        ("{ // nothing\n}", '{ // nothing\n  "k": [1]\n}'),
    ],
)
def test_a_new_member_looks_like_its_neighbours(text, after):
    assert applied(text, jsonc.put(text, ("k",), [1])) == after


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"a": 1,, "b": 2}', 1, 9), ('{\n  "a": 1\n  "b": 2\n}', 3, 3), ('{"a": tru}', 1, 7),
        ("{'a': 1}", 1, 2), ('{"a": 1', 1, 8), ('{"a": "x\n"}', 1, 7), ("", 1, 1), ("{} {}", 1, 4),
        ("{ /* never", 1, 3), ('{"a": 01}', 1, 7), ("[" * 5000, 1, 202), ('{"a": "\\x"}', 1, 7),
    ],
)  # fmt: skip
def test_a_malformed_text_is_told_with_its_place(text, line, column):
    with pytest.raises(jsonc.Malformed) as told:
        jsonc.parse(text)
    assert (told.value.line, told.value.column) == (line, column)


def test_of_two_members_with_one_name_the_last_counts():
    text = '{"a": {"x": 1}, "a": {}}'
    after = applied(text, jsonc.put(text, ("a", "y"), 2))
    assert json.loads(after) == {"a": {"y": 2}}


def test_two_changes_of_different_lines_are_merged_and_of_the_same_are_not():
    assert merged("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n") == "A\nb\nc\nD\n"
    assert merged("a\nb\n", "A\nb\n", "x\nb\n") is None
