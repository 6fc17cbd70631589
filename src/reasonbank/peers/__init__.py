"""Banks that learn together: what they say to each other, and what each makes of it."""

from importlib.util import find_spec

from reasonbank.errors import Refused

_NEEDED = ("biscuit_auth", "msgspec", "nacl", "qh3")


def must_be_installed() -> None:
    """The modules of this package need libraries that are an extra."""
    for name in _NEEDED:
        if find_spec(name) is None:
            raise Refused(
                f"the bus is not installed ({name} is missing): pip install 'reasonbank[bus]'"
            )
