"""Wires ReasonBank into coding agents, and takes it out again: `reasonbank install AGENT`."""
