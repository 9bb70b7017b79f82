"""A server of victims, shared by all attacks."""

import pytest
from attack.victims import Victims


@pytest.fixture(scope="session")
def victims():
    with Victims() as victims:
        yield victims
