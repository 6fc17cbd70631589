"""A pytest plugin for `make mutants`: property tests try few examples, and always the same."""

from hypothesis import settings

settings.register_profile("few", max_examples=15, derandomize=True, database=None, deadline=None)
settings.load_profile("few")
