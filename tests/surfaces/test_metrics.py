"""What Prometheus reads, read by Prometheus' own parser."""

import math

from prometheus_client.parser import text_string_to_metric_families
from tests.requirement import requirement

from reasonbank.surfaces.show.metrics import _metric, render
from reasonbank.testing import a_memory, a_trace, a_warning


def families(bank):
    return {family.name: family for family in text_string_to_metric_families(render(bank))}


def samples(family):
    return {tuple(s.labels.values()): s.value for s in family.samples}


@requirement("OBS-2")
def test_what_is_in_the_bank_is_told_by_label(open_bank):
    bank = open_bank()
    bank.record(a_memory())
    bank.record(a_warning())
    bank.store_trace(a_trace())
    found = families(bank)
    assert samples(found["reasonbank_memories"]) == {("active",): 2, ("archived",): 0}
    assert samples(found["reasonbank_memories_by_outcome"]) == {("failure",): 1, ("success",): 1}
    assert samples(found["reasonbank_traces"]) == {("success",): 1}
    assert all(family.documentation for family in found.values())
    assert {family.type for family in found.values()} == {"gauge", "counter", "histogram"}


@requirement("OBS-2")
def test_searches_are_a_histogram_whose_buckets_add_up(open_bank):
    bank = open_bank()
    bank.record(a_memory())
    for query in ("retry uploads", "retry uploads", "zebra"):
        bank.search(query)
    found = families(bank)
    search = found["reasonbank_search_seconds"]
    buckets = [(float(s.labels["le"]), s.value) for s in search.samples if "le" in s.labels]
    edges, counts = zip(*buckets, strict=True)
    assert edges == tuple(sorted(edges)) and edges[-1] == math.inf
    assert counts == tuple(sorted(counts)) and counts[-1] == 3
    named = {s.name.rpartition("_")[2]: s.value for s in search.samples}
    assert named["count"] == 3
    assert 0 < named["sum"] < edges[-2]
    assert samples(found["reasonbank_searches_empty"]) == {(): 1}
    assert samples(found["reasonbank_query_cache_hits"]) == {(): 1}


def test_counters_never_go_down_while_numbers_are_stored(open_bank):
    bank = open_bank()
    for count in range(1, 4):
        bank.search("zebra")
        bank.store.flush()
        assert samples(families(bank)["reasonbank_searches_empty"]) == {(): count}


def test_labels_and_help_are_escaped():
    odd = 'a "quoted" \\ back\nslash'
    text = "\n".join(_metric("odd", "gauge", odd, [({"name": odd}, 1)])) + "\n"
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"name": odd}
    assert len(text.splitlines()) == 3
