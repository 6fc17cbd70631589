"""Programs that are written into a box and run there; they import nothing but each other.

``start`` runs a Python command. Its checks run in one process (``near``) and the solution that
they import in another (``far``); only data goes between the two (``wire``), so that nothing the
solution does to its own process changes what the checks find.
"""
