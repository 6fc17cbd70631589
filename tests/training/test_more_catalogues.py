"""Catalogues of messages and pages that other projects translate."""

from __future__ import annotations

import re

from tools.train_embedding.parse import Pair, Parallel
from tools.train_embedding.parse_more import PARSERS
from tools.train_embedding.sources import Source


def parsed(kind: str, files: dict[str, str], pattern: str) -> list[Parallel | Pair]:
    return list(PARSERS[kind](files, re.compile(pattern)))


def test_messages_meet_by_key_however_deep():
    files = {
        "en/a.json": '{"errors": {"gone": "The file is gone", "n": "{n, plural, one {a}}"}}',
        "de/a.json": '// generated\n{"errors": {"gone": "Die Datei ist weg", "n": "egal"}}',
    }
    found = parsed("messages", files, r"(?P<lang>\w\w)/(?P<page>\w+)\.json")
    assert found == [Parallel("The file is gone", "de", "Die Datei ist weg")]


def test_a_catalogue_without_an_original_has_english_keys():
    files = {"de/a.json": '{"Save your changes": "Änderungen speichern", "some.name": "Ja, gern"}'}
    found = parsed("messages", files, r"(?P<lang>\w\w)/\w+\.json")
    assert found == [Parallel("Save your changes", "de", "Änderungen speichern")]


def test_properties_are_unescaped_and_lines_joined():
    files = {
        "Messages.properties": "# about\nbusy=The queue \\\n  isn''t empty\n",
        "Messages_de.properties": "busy=Die Schlange ist nicht leer, sch\\u00f6n\n"
        "No\\ such\\ job=Diesen Auftrag gibt es nicht\n",
    }
    found = parsed("properties", files, r"(?P<page>[A-Z]\w+?)(?:_(?P<lang>\w\w))?\.properties")
    assert found == [
        Parallel("The queue isn't empty", "de", "Die Schlange ist nicht leer, schön"),
        Parallel("No such job", "de", "Diesen Auftrag gibt es nicht"),
    ]


def test_english_is_read_out_of_letters_with_accents():
    files = {
        "qps-ploc/main.json": '{"a": {"ask": "Øpëñ æ §ëttïñg þÿ ñæmë"}}',
        "fr/main.json": '{"a": {"ask": "Ouvrir un paramètre par son nom"}}',
    }
    found = parsed("vscode", files, r"(?P<lang>[\w-]+)/(?P<page>\w+)\.json")
    assert found == [
        Parallel("Open a Setting by name", "fr", "Ouvrir un paramètre par son nom"),
    ]


def test_resources_of_windows_programs_meet_by_name():
    row = '<root><data name="a"><value>{}</value></data></root>'
    files = {
        "en-US/r.resw": row.format("Close all tabs"),
        "de-DE/r.resw": row.format("Alle Tabs schließen"),
    }
    found = parsed("resw", files, r"(?P<lang>[\w-]+)/r\.resw")
    assert found == [Parallel("Close all tabs", "de", "Alle Tabs schließen")]


def test_xliff_that_waits_for_review_is_left_out():
    unit = "<trans-unit><source>{}</source><target{}>{}</target></trans-unit>"
    body = unit.format("Too many tries", "", "Zu viele Versuche")
    body += unit.format("Not yet read", ' state="needs-review-translation"', "Ungelesen")
    text = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2">{body}</xliff>'
    found = parsed("xliff", {"m.de.xlf": text}, r"m\.(?P<lang>\w+)\.xlf")
    assert found == [Parallel("Too many tries", "de", "Zu viele Versuche")]


def test_pages_are_read_sentence_by_sentence_and_those_of_people_first():
    head = "---\nms.translationtype: {}\n---\n"
    files = {
        "en/a.md": "First one here. Then another.\n",
        "de/a.md": head.format("HT") + "Hier das erste. Öfter das andere.\n",
        "en/b.md": "Never seen here.\n",
        "de/b.md": head.format("MT") + "Nie hier gesehen.\n",
    }
    found = parsed("pages", files, r"(?P<lang>\w\w)/(?P<page>.+\.md)")
    assert found == [
        Parallel("First one here.", "de", "Hier das erste."),
        Parallel("Then another.", "de", "Öfter das andere."),
    ]


def test_what_was_left_in_english_is_left_out():
    files = {
        "en/a.json": '{"a": "Pass the [constraints] that the capturer asks for"}',
        "de/a.json": '{"a": "Pass the constraints that the capturer asks for"}',
    }
    assert parsed("messages", files, r"(?P<lang>\w\w)/\w+\.json") == []


def test_a_translation_in_a_repository_of_its_own_names_its_original():
    source = Source(
        repository="someone/docs.de-de",
        commit="a" * 40,
        licence="CC-BY-4.0",
        licence_file="LICENSE",
        holder="someone",
        kind="pages",
        files=r".+\.md",
        use="train",
        language="de",
        english="owner/docs@" + "b" * 40,
    )
    assert source.original
    assert (source.original.repository, source.original.commit) == ("owner/docs", "b" * 40)
