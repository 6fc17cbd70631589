"""The bank's numbers for Prometheus (text format 0.0.4).

What is in the bank are gauges. What is counted are the numbers of this process, as is usual:
several processes of one bank can be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version

from reasonbank.bank import Bank
from reasonbank.fields import plain
from reasonbank.model import State
from reasonbank.store.meters import CELLS, Meters, upper_edge

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
# Every eighth edge: each bucket a little more than twice as wide as the one before.
_EDGES = range(8, CELLS - 1, 8)

Sample = tuple[Mapping[str, str], float]


def render(bank: Bank) -> str:
    """Of the whole bank, whichever workspace ``bank`` looks at."""
    return "".join(f"{line}\n" for line in _lines(bank))


def _lines(bank: Bank) -> Iterator[str]:
    numbers = plain(bank.statistics(everywhere=True))
    core = bank.store
    meters = Meters(core.meters)  # As they stand now: others go on counting.
    about = {"version": version("reasonbank"), "embedder": numbers["embedder"]}
    yield from _metric("info", "gauge", "What runs here.", [(about, 1)])
    yield from _metric(
        "start_time_seconds", "gauge", "When this process opened the bank.",
        [({}, core.started / 1e6)],
    )  # fmt: skip
    by_state = {str(state): 0 for state in State} | numbers["by_state"]
    for name, label, counts in (
        ("memories", "state", by_state),
        ("memories_by_source", "source", numbers["by_source"]),
        ("memories_by_outcome", "outcome", numbers["by_outcome"]),
        ("traces", "outcome", numbers["traces_by_outcome"]),
    ):
        samples = [({label: key}, count) for key, count in sorted(counts.items())]
        yield from _metric(name, "gauge", f"Stored, by {label}.", samples)
    for name, help in (
        ("not_embedded", "Memories that are found by their words only, so far."),
        ("embedded_by_other_models", "Memories that wait for `reasonbank reindex`."),
        ("forgotten", "Memories that were removed for good."),
        ("workspaces", "Projects that have stored something."),
    ):
        yield from _metric(name, "gauge", help, [({}, numbers[name])])
    queue = numbers["queue"]
    jobs = [({"state": state}, queue[state]) for state in ("waiting", "running", "dead")]
    yield from _metric("jobs", "gauge", "Jobs that are not done, by state.", jobs)
    if queue["oldest_seconds"] is not None:
        age: list[Sample] = [({}, queue["oldest_seconds"])]
        yield from _metric("oldest_job_seconds", "gauge", "How long the oldest waits.", age)
    model = numbers["process"]["model"] or {}
    for name, help in (
        ("calls", "Calls to language models."),
        ("retries", "Attempts after the first."),
        ("failures", "Calls that ended in an error."),
        ("cache_hits", "Calls that an earlier reply answered."),
        ("cache_misses", "Calls that had to be made, and whose reply is kept."),
        ("cache_bypasses", "Calls that ask for something new each time."),
        ("cache_evictions", "Replies that made room."),
        ("shared", "Calls that waited for the same one in flight."),
        ("input_tokens", "Tokens that models read."),
        ("output_tokens", "Tokens that models wrote, without reasoning."),
        ("reasoning_tokens", "Tokens that models thought."),
    ):
        if model.get(name) is not None:
            yield from _metric(f"model_{name}_total", "counter", help, [({}, model[name])])
    if model.get("cost") is not None:
        cost: list[Sample] = [({}, model["cost"])]
        yield from _metric("model_cost_dollars_total", "counter", "What models cost.", cost)
    for name, meter, help in (
        ("searches_empty_total", "search.empty", "Searches that found nothing relevant."),
        ("searches_weak_total", "search.weak", "Searches that found only weak matches."),
        ("searches_degraded_total", "search.degraded", "Searches with a poorer answer."),
        ("searches_failed_total", "search.failed", "Searches that ended in an error."),
        ("query_cache_hits_total", "cache.hits", "Questions whose embedding was known."),
        ("query_cache_misses_total", "cache.misses", "Questions that had to be embedded."),
        ("query_cache_evictions_total", "cache.evictions", "Embeddings that made room."),
    ):
        yield from _metric(name, "counter", help, [({}, meters.total(meter) or 0)])
    yield from _histogram("search_seconds", "How long searches took.", meters, "search")
    yield from _histogram("embedding_seconds", "How long questions took to embed.", meters,
                          "embedding")  # fmt: skip


def _metric(name: str, kind: str, help: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP reasonbank_{name} {_escaped(help)}"
    yield f"# TYPE reasonbank_{name} {kind}"
    for labels, value in samples:
        yield f"reasonbank_{name}{_labels(labels)} {value}"


def _histogram(name: str, help: str, meters: Meters, meter: str) -> Iterator[str]:
    yield from _metric(name, "histogram", help, ())
    for edge, count in zip(_EDGES, meters.cumulative(meter, _EDGES), strict=True):
        yield f'reasonbank_{name}_bucket{{le="{upper_edge(edge):.6g}"}} {count}'
    count = meters.times(meter)
    yield f'reasonbank_{name}_bucket{{le="+Inf"}} {count}'
    yield f"reasonbank_{name}_sum {(meters.total(meter) or 0) / 1e6}"
    yield f"reasonbank_{name}_count {count}"


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{k}="{_escaped(v).replace(chr(34), chr(92) + chr(34))}"'
                      for k, v in labels.items())  # fmt: skip
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
