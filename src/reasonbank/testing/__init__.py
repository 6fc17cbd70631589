"""What tests need, ours and those of people who build on ReasonBank.

``ledger_contract``, ``index_contract``, ``embedder_contract``, ``model_contract`` and
``logs_contract`` say as tests what each part must do; they need pytest and are imported by name, as
are ``memory_ledger`` and ``memory_logs``.
"""

from reasonbank.llm.scripted import Scripted, Slow
from reasonbank.testing.builders import a_memory, a_trace, a_warning

__all__ = ["Scripted", "Slow", "a_memory", "a_trace", "a_warning"]
