"""``python -m reasonbank.surfaces.cli``."""

from reasonbank.surfaces.cli import main

main()
