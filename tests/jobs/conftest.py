from tests.tidy.conftest import timeouts

__all__ = ["timeouts"]
