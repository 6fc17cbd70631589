"""Numbers from evidence."""
