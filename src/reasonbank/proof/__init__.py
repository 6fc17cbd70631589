"""Proof that memory helps: what the log says about it, and how sure one can be."""
