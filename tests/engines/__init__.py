"""Real engines for tests, started from packages: no containers, nothing to set up."""
