"""The command `reasonbank`. A module adds its commands when one of them is asked for."""

from reasonbank.surfaces.cli.shell import main

__all__ = ["main"]
