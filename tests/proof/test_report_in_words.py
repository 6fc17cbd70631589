"""What a report says, drawn from made-up numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from reasonbank.proof.calibration import Bin, Calibration
from reasonbank.proof.holdout import Difference, NotCounted
from reasonbank.proof.mistakes import InSessions, Met, Repeated
from reasonbank.proof.report import Report, sentences
from reasonbank.surfaces.show.report_page import html

WORTH = Difference(
    with_memory=40,
    with_succeeded=31,
    without=12,
    without_succeeded=5,
    difference=0.501,
    low=-0.502,
    high=0.998,
    harm=0.03,
)
UNKNOWN = replace(
    WORTH, without=0, without_succeeded=0, difference=None, low=None, high=None, harm=None
)
UNTESTED = Calibration(count=0, brier=None, expected_error=None, bins=())
TESTED = Calibration(
    count=36,
    brier=0.1875,
    expected_error=0.0625,
    bins=(
        Bin(low=0.2, high=0.3, count=10, predicted=0.253, observed=0.4137),
        Bin(low=0.7, high=0.8, count=36, predicted=0.75, observed=0.8),
    ),
)


LEFT_OUT = NotCounted(
    found_nothing=3, not_drawn=4, not_ended_with=5, not_ended_without=6, told_by_memory=7
)
MET = Met(again=2, although_shown=1, avoided=3)


def a_report(**given: Any) -> Report:
    known: dict[str, Any] = {
        "workspace": "w",
        "tasks": 52,
        "held_out": 12,
        "share": 0.2,
        "overall": WORTH,
        "by_memory": (("m1", WORTH), ("m2", replace(WORTH, difference=-0.1)), ("m5", WORTH)),
        "harmful": ("m2", "m3"),
        "calibration": TESTED,
        "mistakes": Repeated(failures=8, warned=2, by_warning=(("m3", 2), ("m4", 1))),
        "titles": {"m1": "Retry", "m2": "<b>Lock</b>", "m4": "Wait"},
        "in_sessions": InSessions(all=MET, by_warning=(("m4", MET),)),
        "not_counted": LEFT_OUT,
        "tasks_needed": 9,
        "learned": ((date(2026, 11, 16), 2),),
    }
    return Report(**known | given)


def test_a_report_in_words_says_what_is_known() -> None:
    assert sentences(a_report()) == [
        "52 tasks ended, 12 of them without memory on purpose.",
        "Where memory was found, 31 of 40 tasks with it succeeded, and 5 of 12 that went "
        "without: memory makes a difference of about +50 points (95 % from -50 to +100).",
        "Not compared: 3 for which nothing was found; 4 from when no task was held out; 5 with "
        "memory that have not said how they ended; 6 without that have not; 7 told of by single "
        "memories only; report the session as well.",
        "Hurts: <b>Lock</b> (m2).",
        "Hurts: m3 (m3).",
        "Forecasts of 36 uses were off by 0.062 on average (Brier score 0.188).",
        "2 of 8 failures were ones that a warning was stored for.",
        "In 2 sessions a command failed as a stored warning says, in 1 of them although it was "
        "shown; 3 times a warning was shown and its failure did not come.",
    ]


def test_and_what_it_would_take_to_know_more() -> None:
    none = Repeated(failures=0, warned=0, by_warning=())
    assert sentences(
        a_report(
            overall=UNKNOWN,
            harmful=(),
            calibration=UNTESTED,
            mistakes=none,
            in_sessions=InSessions(),
            not_counted=NotCounted(),
        )
    ) == [
        "52 tasks ended, 12 of them without memory on purpose.",
        "What memory is worth cannot be told yet: set proof.hold_out (0.1 holds out every tenth "
        "task), name tasks with a session, and report how each one ended.",
        "Forecasts were not put to the test yet: no task reported on a memory.",
    ]


def test_no_difference_at_all_is_said_as_that() -> None:
    nothing = replace(WORTH, difference=0.0, low=0.0, high=0.0)
    assert (
        "a difference of about +0 points (95 % from +0 to +0)."
        in sentences(a_report(overall=nothing))[1]
    )
    assert "<td>+0</td><td>+0 to +0</td>" in html(a_report(by_memory=(("m1", nothing),)))


def test_a_report_in_json_has_every_number_and_the_titles_that_are_known() -> None:
    worth = {
        "with_memory": 40, "with_succeeded": 31, "without": 12, "without_succeeded": 5,
        "difference": 0.501, "low": -0.502, "high": 0.998, "harm": 0.03,
    }  # fmt: skip
    bins = [
        {"low": 0.2, "high": 0.3, "count": 10, "predicted": 0.253, "observed": 0.4137},
        {"low": 0.7, "high": 0.8, "count": 36, "predicted": 0.75, "observed": 0.8},
    ]
    found = a_report().to_json()
    found["calibration"]["bins"] = list(found["calibration"]["bins"])
    assert found == {
        "workspace": "w",
        "tasks": 52,
        "held_out": 12,
        "hold_out_share": 0.2,
        "memory": worth,
        "needed": {"tasks": 9, "hold_out": 0.2},
        "not_counted": {
            "found_nothing": 3, "not_drawn": 4, "not_ended_with": 5, "not_ended_without": 6,
            "told_by_memory": 7,
        },
        "by_memory": [
            {"id": "m1", "title": "Retry", **worth},
            {"id": "m2", "title": "<b>Lock</b>", **worth, "difference": -0.1},
            {"id": "m5", "title": None, **worth},
        ],
        "harmful": [{"id": "m2", "title": "<b>Lock</b>"}, {"id": "m3", "title": None}],
        "calibration": {"count": 36, "brier": 0.1875, "expected_error": 0.0625, "bins": bins},
        "confidence_calibration": {"count": 0, "brier": None, "expected_error": None, "bins": ()},
        "repeated_mistakes": {
            "failures": 8,
            "warned": 2,
            "rate": 0.25,
            "by_warning": [
                {"id": "m3", "title": None, "count": 2},
                {"id": "m4", "title": "Wait", "count": 1},
            ],
            "in_sessions": {
                "again": 2, "although_shown": 1, "avoided": 3,
                "by_warning": [
                    {"id": "m4", "title": "Wait", "again": 2, "although_shown": 1, "avoided": 3},
                ],
            },
        },
        "learned": [{"week": "2026-11-16", "count": 2}],
        "sentences": sentences(a_report()),
    }  # fmt: skip


def test_the_page_has_the_sentences_and_a_row_for_each_memory_without_its_markup() -> None:
    page = html(a_report())
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert "<title>Learning report</title>" in page
    assert "<h1>Learning report</h1><p>52 tasks ended, 12 of them" in page
    assert "<p>Hurts: &lt;b&gt;Lock&lt;/b&gt; (m2).</p>" in page and "<b>" not in page
    table = (
        "<h2>Memory by memory</h2><table><tr><th>memory</th><th>tasks with</th>"
        "<th>without</th><th>points</th><th>95 %</th></tr>"
        "<tr><td>Retry</td><td>40</td><td>12</td><td>+50</td><td>-50 to +100</td></tr>"
        "<tr><td>&lt;b&gt;Lock&lt;/b&gt;</td><td>40</td><td>12</td><td>-10</td>"
        "<td>-50 to +100</td></tr>"
        "<tr><td>m5</td><td>40</td><td>12</td><td>+50</td><td>-50 to +100</td></tr></table>"
    )
    assert table in page
    assert "<p>Hurts: m3 (m3).</p><p>" in page


def test_a_dot_lies_across_at_what_was_predicted_and_up_at_what_was_observed() -> None:
    page = html(a_report())
    figure = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    assert '<svg viewBox="0 0 288 292" role="img" font-size="11" fill="currentColor">' in figure
    assert "<title>Forecasts: predicted against observed success</title>" in figure
    legend = "Forecasts: predicted (across), observed (up)</text>"
    assert figure.endswith(f"{legend}</svg>")
    assert figure.count("</title></circle><") == 2
    assert [figure.count(f">{mark}</text><") for mark in (0, 0.5, 1)] == [2, 2, 2]
    # A side of 240, 34 from the left and 10 from the top; the largest dot has radius 9.
    across, up = round(34 + 0.253 * 240, 1), round(10 + (1 - 0.4137) * 240, 1)
    assert f'<circle cx="{across}" cy="{up}" r="6.2"' in page
    assert f'<circle cx="{34 + 0.75 * 240}" cy="{10 + 0.2 * 240}" r="9.0"' in page
    assert "<title>10 uses: predicted 0.25, observed 0.41</title>" in page
    assert '<line x1="34" y1="250" x2="274" y2="10"' in page
    assert '<text x="154.0" y="266" text-anchor="middle">0.5</text>' in page
    assert '<text x="28" y="134.0" text-anchor="end">0.5</text>' in page


def test_what_there_are_no_numbers_for_is_not_drawn() -> None:
    page = html(a_report(calibration=UNTESTED, by_memory=(), in_sessions=InSessions()))
    assert page.endswith("stored for.</p></html>\n")
    assert "<svg" not in page and "<table" not in page
