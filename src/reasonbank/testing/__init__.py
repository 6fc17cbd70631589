"""What tests need, ours and those of people who build on ReasonBank."""

from reasonbank.testing.builders import a_memory, a_trace, a_warning

__all__ = ["a_memory", "a_trace", "a_warning"]
