"""Lessons without a model, from what failed and then worked."""
