"""One sentence is enough: what a lesson leaves out is taken from its content."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st
from tests.requirement import requirement

from reasonbank.fields import LIMITS, Limits, checked
from reasonbank.model import Memory, Outcome
from reasonbank.store import derived as module
from reasonbank.store.derived import READ, derived

TINY = Limits(title=10, description=10, content=100, tags=1, tag=5)


@requirement("CLI-5")
@pytest.mark.parametrize(
    ("content", "title", "description"),
    [
        ("Use npm ci in CI.", "Use npm ci in CI", "Use npm ci in CI."),
        ("Close the pool before forking", "Close the pool before forking", "Before forking"),
        ("When CI breaks, clear the cache.", "When CI breaks, clear the cache", "When CI breaks"),
        ("Check if it is closed before forking", None, "Before forking"),
        ("pytest hangs when run as root; use a user", None, "When run as root"),
        ("Use A. It is quicker when B is large.", "Use A", "When B is large"),
        ("In CI, set HOME", "In CI, set HOME", "In CI"),
        ("## Caches\nClear them after a deploy.", "Caches", "After a deploy"),
        ("- Run `make. Now` first.\n- Then go", "Run `make. Now` first", "Run `make. Now` first."),
        ("1. Stop the worker before you migrate", None, "Before you migrate"),
        ("Use a tool, e.g. ruff. It is quick.", "Use a tool, e.g. ruff", "Use a tool, e.g. ruff."),
        ("Ask Python 3.11 for it", "Ask Python 3.11 for it", "Ask Python 3.11 for it"),
        ("```\nmake\n```", "make", "make"),
        ("Wenn die Tests rot sind, nicht pushen.", None, "Wenn die Tests rot sind"),
        ("Borra la caché cuando falla el build", None, "Cuando falla el build"),
        ("当构建失败时，清除缓存。然后重试。", "当构建失败时，清除缓存", "当构建失败时"),
        ("テストが赤いときは、直す。", None, "テストが赤いときは"),
        ("???", "???", "???"),
    ],
)
def test_title_and_situation_are_what_the_text_says_itself(content, title, description):
    found = derived(content, LIMITS)
    assert found.description == description
    assert title is None or found.title == title


@requirement("CLI-5")
@pytest.mark.parametrize(
    "warning",
    [
        "Never force-push to main", "Don’t retry a charge", "Do not sleep in tests.",
        "Avoid os.path; use pathlib.", "When a charge times out, never retry it",
        "pytest fails when it is run as root", "The migration breaks on PostgreSQL 12",
        "It does not work with Python 3.10", "Please don't push on Fridays", "You must not sleep",
        "Nie auf main pushen", "Wenn die Tests rot sind, niemals pushen", "Ne jamais pousser",
        "Nunca hagas push", "No uses eval", "Não use eval", "Никогда не пушь в main",
        "不要在周五部署", "プッシュしないでください",
    ],
)  # fmt: skip
def test_what_warns_is_a_failure(warning):
    assert derived(warning, LIMITS).outcome is Outcome.FAILURE


@requirement("CLI-5")
@pytest.mark.parametrize(
    "advice",
    [
        "Use npm ci, not npm install", "When the build fails, clear the cache",
        "Retry uploads that failed", "Set a timeout, so that it never hangs",
        "Don't forget to close the pool", "No need to restart the server",
        "Check whether it never ends", "Stop the worker before you migrate",
        "Keep the cache no longer than 5 minutes", "Restart it if it crashes",
        "Lösche den Cache, wenn der Build scheitert", "当构建失败时，清除缓存",
    ],
)  # fmt: skip
def test_what_advises_is_a_success(advice):
    assert derived(advice, LIMITS).outcome is Outcome.SUCCESS


@requirement("MEM-2")
@given(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))
def test_whatever_is_derived_can_be_stored(content):
    for limits in (LIMITS, TINY):
        told = derived(content, limits)._asdict()
        checked(Memory(content="x", **told), limits)


def test_a_long_sentence_is_cut_at_a_clause_or_a_word_and_never_within_a_letter():
    title = derived("Raise max_connections and restart it all, " + "as it is too low " * 20, LIMITS)
    assert title.title == "Raise max_connections and restart it all"
    words = derived("word " * 60, LIMITS).title
    assert len(words) <= 100 and words.endswith("word…")
    family = "👩\u200d👧"
    assert derived(family * 90, LIMITS).title.removesuffix("…").replace(family, "") in ("", "👩")
    assert derived("e\u0301" * 300, LIMITS).title.removesuffix("…").endswith("\u0301")


@requirement("SEC-3")
@pytest.mark.parametrize("part", ["when ", "a, ", "`. ", "- ", "\n", ". ", "1. ", "if check ", "#"])
def test_no_text_makes_it_take_more_than_linear_time(part):
    def steps(text):
        count = 0

        def look(frame, event, argument):
            nonlocal count
            count += event == "line"
            return look if frame.f_code.co_filename == module.__file__ else None

        before = sys.gettrace()
        sys.settrace(look)
        try:
            derived(text, LIMITS)
        finally:
            sys.settrace(before)
        return count

    short, long = (part * (size // len(part)) for size in (READ // 4, READ))
    assert steps(long) < 5 * steps(short) + 1000
    assert steps(long * 8) < 1.1 * steps(long) + 1000, "the rest is not looked at"
