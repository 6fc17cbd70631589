"""One open bank, seen by somebody."""
