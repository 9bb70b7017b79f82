"""Reports of one plan, made once for all tests of them."""

from pathlib import Path

import pytest
from show.report.hostile import Pages, make_pages
from show.report.wide import make_wide_page


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return make_pages(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def wide_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wide_page(tmp_path_factory.mktemp("wide"))
