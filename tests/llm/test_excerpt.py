"""A long text made shorter keeps its ends."""

import pytest
from hypothesis import given, strategies as st
from tests.requirement import requirement

from reasonbank.llm.excerpt import excerpt


@requirement("AGT-9")
@given(st.integers(200, 3000), st.integers(80, 4000), st.floats(0, 1))
def test_at_least_a_fifth_of_what_is_kept_is_the_beginning_and_as_much_the_end(size, most, head):
    text = "".join(chr(0x4E00 + i) for i in range(size))
    short = excerpt(text, most, head=head)
    assert len(short) <= max(most, 0)
    if size <= most:
        assert short == text
        return
    first, mark, last = short.partition("\n[… ")
    last = last.partition("]\n")[2]
    assert mark and text.startswith(first) and text.endswith(last)
    kept = len(first) + len(last)
    assert len(first) >= kept // 5 and len(last) >= kept // 5
    assert f"{size - kept:,} characters left out" in short


@pytest.mark.parametrize("most", [0, 1, 10])
def test_no_room_at_all_leaves_only_how_much_is_missing(most):
    assert excerpt("x" * 1000, most) == "\n[… 1,000 characters left out …]\n"
