"""Frozen dataclasses that are quick to make: a hook makes sixty before it can say anything.

The decorator of the standard library writes and compiles six functions for each class. Three of
them need not be written for each: how it is shown, compared and hashed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass as valueclass
else:
    from dataclasses import dataclass, fields
    from operator import attrgetter

    def valueclass(**options):
        """As ``dataclass``; what a class says of these itself stands."""
        decorate = dataclass(repr=False, eq=False, **options)

        def made(cls):
            own = frozenset(vars(cls))
            # Otherwise its signature is made up for this, from all that it takes.
            cls.__doc__ = cls.__doc__ or f"{cls.__name__}()"
            cls = decorate(cls)
            told = fields(cls)
            if "__repr__" not in own:
                cls.__repr__ = _shown
            if "__eq__" not in own:
                cls.__eq__ = _compared(_all_of(f.name for f in told if f.compare))
                if "__hash__" not in own:
                    hashed = (f.name for f in told if (f.compare if f.hash is None else f.hash))
                    cls.__hash__ = _hashed(_all_of(hashed))
            return cls

        return made

    def _all_of(names):
        names = tuple(names)
        return attrgetter(*names) if names else type

    def _compared(key):
        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return key(self) == key(other)

        return __eq__

    def _hashed(key):
        def __hash__(self):
            return hash(key(self))

        return __hash__

    def _shown(self):
        told = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(told)})"


__all__ = ["valueclass"]
