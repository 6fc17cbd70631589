"""What rules learn from sixty real sessions, and whether it is worth anything."""
