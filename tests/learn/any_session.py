"""Sessions of any kind, for properties."""

from hypothesis import strategies as st

from reasonbank.learn.session import Command, Edit, Turn

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=40)
filled = texts.filter(str.strip)
entries = st.lists(
    st.builds(Turn, number=st.just(0), by_user=st.booleans(), text=texts)
    | st.builds(Command, number=st.just(0), command=filled, output=texts,
                exit_code=st.none() | st.integers(-9, 255))
    | st.builds(Edit, number=st.just(0), path=filled, change=texts),
    max_size=8,
)  # fmt: skip
