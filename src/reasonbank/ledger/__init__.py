"""The log of events and the tables made from it."""
