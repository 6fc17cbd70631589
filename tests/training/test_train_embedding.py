"""What can be checked of the training without torch, a GPU or the network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tools.train_embedding import noise, weights
from tools.train_embedding.collect import load, store, usable_pair, usable_translation
from tools.train_embedding.evaluate import LESSONS, interval, spearman
from tools.train_embedding.parse import LANGUAGES, Pair, Parallel, language
from tools.train_embedding.parse_more import PARSERS
from tools.train_embedding.sources import ALLOWED, table

from reasonbank.embed.minilm import FOLDER, WEIGHTS, MiniLM
from reasonbank.embed.minilm.network import MODEL

TLDR = """# tar

> Archiving utility.
> More information: <https://www.gnu.org/software/tar>.

- [c]reate an archive from [f]iles:

`tar cf {{path/to/target.tar}} {{path/to/file}}`
"""
TLDR_DE = """# tar

> Archivierungstool.
> Weitere Informationen: <https://www.gnu.org/software/tar>.

- Erstelle ein Archiv von Dateien:

`tar cf {{pfad/zu/ziel.tar}} {{pfad/zu/datei}}`
"""


def parsed(kind: str, files: dict[str, str], pattern: str) -> list[Parallel | Pair]:
    return list(PARSERS[kind](files, re.compile(pattern)))


def test_every_source_is_pinned_and_may_be_used_for_a_model_that_is_given_away():
    sources = table()
    for source in sources:
        assert re.fullmatch(r"[0-9a-f]{40}", source.commit), source.repository
        assert source.licence in ALLOWED, source.repository
        assert source.licence_file and source.holder, source.repository
        assert source.kind in PARSERS, source.repository
        assert source.use in ("train", "held-out"), source.repository
        assert source.pattern
    held_out = {source.repository for source in sources if source.use == "held-out"}
    assert held_out
    assert not held_out & {source.repository for source in sources if source.use == "train"}


def test_the_model_card_names_every_source_and_its_licence():
    card = (Path(__file__).parents[2] / "docs" / "model-card.md").read_text("utf-8")
    for source in table():
        assert f"{source.repository} | {source.licence}" in card


def test_commands_meet_their_descriptions_and_translations():
    files = {"pages/common/tar.md": TLDR, "pages.de/common/tar.md": TLDR_DE}
    found = parsed("tldr", files, r"pages(?:\.(?P<lang>de))?/(?P<page>.+)\.md")
    assert (
        Parallel("create an archive from files", "de", "Erstelle ein Archiv von Dateien") in found
    )
    assert Parallel("Archiving utility.", "de", "Archivierungstool.") in found
    pairs = {one.question: one.document for one in found if isinstance(one, Pair)}
    assert pairs["create an archive from files"].startswith("tar cf path/to/target.tar")


def test_fuzzy_messages_of_a_catalogue_are_left_out():
    text = 'msgid "could not open file"\nmsgstr "konnte Datei nicht öffnen"\n\n'
    text += '#, fuzzy\nmsgid "other"\nmsgstr "falsch"\n'
    found = parsed("po", {"src/po/de.po": text}, r"src/po/(?P<lang>\w+)\.po")
    assert found == [Parallel("could not open file", "de", "konnte Datei nicht öffnen")]


def test_only_translated_units_of_xliff_are_taken():
    unit = '<trans-unit id="a"><source>{}</source><target state="{}">{}</target></trans-unit>'
    body = unit.format("&amp;Build failed", "translated", "Fehler beim &amp;Build")
    body += unit.format("New one", "new", "New one")
    text = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2">{body}</xliff>'
    found = parsed("xlf", {"x/Strings.de.xlf": text}, r".*\.(?P<lang>\w+)\.xlf")
    assert found == [Parallel("Build failed", "de", "Fehler beim Build")]


def test_pages_are_aligned_only_where_their_structure_agrees():
    files = {
        "en/a.md": "# Start\n\nFirst words.\n\n## More\n\nSome words.\n",
        "de/a.md": "# Anfang\n\nErste Worte.\n\n## Mehr\n\n- ein Punkt\n- noch einer\n",
        "fr/a.md": "# Début\n\nPremiers mots.\n",
    }
    found = parsed("translated", files, r"(?P<lang>\w\w)/(?P<page>.+\.md)")
    assert Parallel("First words.", "de", "Erste Worte.") in found
    assert {one.text for one in found if isinstance(one, Parallel)} == {
        "",
        "Anfang",
        "Erste Worte.",
        "Mehr",
    }


def test_an_error_message_leads_to_its_explanation():
    page = (
        '---\ntitle: "Compiler Error C2050"\n---\n# Compiler Error C2050\n\n'
        "> switch expression not integral\n\n## Remarks\n\n"
        "The `switch` expression evaluates to a noninteger value. Use only integral values.\n"
    )
    found = parsed("documents", {"c2050.md": page}, r".+\.md")
    answers = {one.question: one.document for one in found if isinstance(one, Pair)}
    assert answers["switch expression not integral"].startswith("The switch expression")


def test_what_teaches_nothing_is_left_out():
    assert usable_translation(Parallel("The file was not found", "de", "Datei nicht gefunden"))
    assert not usable_translation(Parallel("The file was not found", "ru", "File not found here"))
    assert not usable_translation(Parallel("The file was not found", "de", "Datei"))
    assert not usable_pair(Pair("", "Same words", "Same words, and then a little more of them"))


def test_codes_of_languages_become_ours():
    codes = ("pt-BR", "zh-Hans", "zh_CN", "zh_TW", "de_DE", "ko")
    assert [language(code) for code in codes] == ["pt", "zh", "zh", "", "de", ""]


def test_noise_is_decided_by_its_seed():
    text, prompts = "the server could not open the file twice", ["Keep it short."]
    one, other = (
        [noise.noisy(Random(seed), text, prompts, message=True) for seed in range(200)]
        for _ in range(2)
    )
    assert one == other
    assert sum(read == text for read, _ in one) > 60


@pytest.mark.parametrize("seed", range(20))
def test_a_prompt_holds_the_whole_problem(seed: int):
    problem = "the import fails with a missing column"
    assert problem in noise.prompted(Random(seed), problem, ["Work in small steps."])


def test_a_changed_text_differs_in_one_value_or_its_meaning():
    assert noise.changed(Random(1), "wait 30 seconds") not in ("", "wait 30 seconds")
    assert noise.changed(Random(1), "the cache stays enabled") == "the cache stays disabled"
    assert noise.changed(Random(1), "nothing here") == ""


def test_spellings_of_one_identifier():
    spelt = {noise.respelt(Random(seed), "parseUserName") for seed in range(60)}
    assert {"parse user name", "parse_user_name", "parseUserName"} <= spelt


def test_weights_that_are_read_and_written_give_the_same_vectors(tmp_path: Path):
    original = Path(FOLDER, WEIGHTS)
    weights.write(tmp_path / WEIGHTS, weights.read(original))
    assert (tmp_path / WEIGHTS).stat().st_size == MODEL.itemsize == 23_058_408
    (tmp_path / "vocabulary.txt").symlink_to(Path(FOLDER, "vocabulary.txt"))
    texts = ["how do I fix a flaky test?", "Verbindung verweigert"]
    same = MiniLM(str(tmp_path)).embed(texts)
    np.testing.assert_allclose(same, MiniLM().embed(texts), atol=1e-4)


def test_a_blend_of_one_model_with_itself_is_that_model():
    original = Path(FOLDER, WEIGHTS)
    one, blended = weights.read(original), weights.blend(original, original, 0.3)
    for name, matrix in one.items():
        np.testing.assert_allclose(blended[name], matrix, atol=1e-6)


def test_rows_are_stored_and_loaded(tmp_path: Path):
    store(tmp_path / "a.jsonl.xz", [{"en": "ä"}, "ö"])
    assert load(tmp_path / "a.jsonl.xz") == [{"en": "ä"}, "ö"]


def test_every_lesson_is_asked_for_in_every_language():
    for line in LESSONS.read_text("utf-8").splitlines():
        row = json.loads(line)
        assert all(row[key] for key in ("title", "content", "en", *LANGUAGES))


def test_statistics():
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 90.0])) == pytest.approx(100)
    low, high = interval(np.array([1.0, 2.0, 3.0] * 30))
    assert 1.7 < low < 2 < high < 2.3
