"""The ways in: each turns its caller's words into calls of Bank, and nothing more."""
