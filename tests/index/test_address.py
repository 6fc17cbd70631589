"""What the end of a bank's URL says about its index."""

from pathlib import Path

import pytest

from reasonbank.index.address import Address, parsed, split


@pytest.mark.parametrize(
    ("url", "ledger", "index"),
    [
        ("sqlite:///bank.db", "sqlite:///bank.db", ""),
        ("what?is this.db", "what?is this.db", ""),
        ("sqlite:///bank.db?index=chroma", "sqlite:///bank.db", "chroma"),
        ("bank.db?index=qdrant+http://h:6333", "bank.db", "qdrant+http://h:6333"),
        ("sqlite:///b.db?index=qdrant%2Bhttp://h", "sqlite:///b.db", "qdrant+http://h"),
        ("postgresql://u:p@h/d?sslmode=require", "postgresql://u:p@h/d?sslmode=require", ""),
        ("postgresql://u:p@h/d?index=local", "postgresql://u:p@h/d", "local"),
        ("postgresql://h/d?index=local&schema=s", "postgresql://h/d?schema=s", "local"),
        ("postgresql://h/d?a=b&index=chroma+http://c&c=d", "postgresql://h/d?a=b&c=d",
         "chroma+http://c"),
        ("postgresql://u:a?b&c@h/d?a=b&index=local", "postgresql://u:a?b&c@h/d?a=b", "local"),
    ],
)  # fmt: skip
def test_a_url_is_the_ledgers_and_the_indexs(url: str, ledger: str, index: str) -> None:
    assert split(url) == (ledger, index)


def test_each_form_is_understood() -> None:
    assert parsed("") == Address()
    assert parsed("local") == Address(engine="local")
    assert parsed("qdrant+https://h:6333/") == Address(engine="qdrant", server="https://h:6333")
    assert parsed("chroma+file:///some/where") == Address(
        engine="chroma", folder=Path("/some/where")
    )
