"""Reports of one plan, made once for all tests of them."""

import pytest
from report.hostile import Pages, make_pages


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return make_pages(tmp_path_factory.mktemp("report"))
