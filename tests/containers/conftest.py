"""The image, which is built once, and an engine that runs it."""

import pytest
from tests.containers import engine as engines, image as images


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    if (why := images.obstacle()) is not None:
        pytest.skip(why)
    image = images.Image(tmp_path_factory.mktemp("image"))
    yield image
    image.remove()


@pytest.fixture(scope="session")
def engine(image, tmp_path_factory):
    if (why := engines.obstacle()) is not None:
        pytest.skip(why)
    engine = engines.Engine(image, tmp_path_factory.mktemp("checkout"))
    yield engine
    engine.remove()
