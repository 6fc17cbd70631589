"""Marks a test as the proof of a promise: ``@requirement("RET-3")``.

A test that proves only a part says what is left: ``@requirement("GEN-2", left="the
drawing")``. Such an id stays missing in requirements.toml.
"""

import pytest

requirement = pytest.mark.requirement
