"""What tests need, ours and those of people who build on ReasonBank."""

from reasonbank.llm.scripted import Scripted, Slow
from reasonbank.testing.builders import a_memory, a_trace, a_warning

__all__ = ["Scripted", "Slow", "a_memory", "a_trace", "a_warning"]
