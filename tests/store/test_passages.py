from hypothesis import given, strategies as st

from reasonbank.store.passages import LONG, MOST, PASSAGE, passages


def test_a_text_that_a_model_reads_whole_has_no_passages():
    assert passages("") == passages("A short one.") == passages("x" * LONG) == ()


def test_passages_are_whole_sentences_and_lines():
    sentences = [f"Sentence number {n} says something of its own." for n in range(40)]
    found = passages(" ".join(sentences))
    assert all(part.startswith("Sentence") and part.endswith("own.") for part in found)
    assert all(len(part) <= PASSAGE for part in found)
    assert " ".join(found).split() == " ".join(sentences).split()


@given(st.text(st.sampled_from("ab.!? \n"), min_size=LONG, max_size=9 * LONG))
def test_nothing_is_left_out_and_there_are_never_too_many(text):
    found = passages(text)
    assert "".join("".join(found).split()) == "".join(text.split()) or len(text) <= LONG
    assert len(found) <= MOST


def test_the_longest_memory_there_may_be_is_read_to_its_end():
    text = "word " * 6_000 + "x" * 2_000
    found = passages(text)
    assert 0 < len(found) <= MOST
    assert "".join("".join(found).split()) == "".join(text.split())
