"""Nearest vectors."""
