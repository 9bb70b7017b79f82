"""The cache of strategies on disk: used when it can be, harmless when it cannot."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_tables import block, finest, histogram, total

from sqlmadp.schema.marginal import TOTAL
from sqlmadp.strategy import select as selection
from sqlmadp.strategy.cache import StrategyCache, default_directory
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload

WORKLOAD = Workload.of([histogram("a"), total(), block(finest("a", "c"), np.tri(10))])


@pytest.fixture(autouse=True)
def forgetful():
    """Let every test select anew."""
    selection._known.clear()


@pytest.fixture
def cache(tmp_path):
    return StrategyCache(tmp_path / "deep" / "cache")


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.marginal == other.marginal
        assert one.matrix.dtype == other.matrix.dtype == np.int64
        np.testing.assert_array_equal(one.matrix.toarray(), other.matrix.toarray())


def test_a_strategy_comes_back_from_disk_as_it_was(cache):
    strategy = select(WORKLOAD, cache=cache)
    blocks, error, total = cache.load(WORKLOAD.fingerprint)
    assert total == strategy.total
    assert_same(blocks, strategy.blocks)
    assert error == strategy.error
    assert [path.suffix for path in cache.directory.iterdir()] == [".npz"]


def test_a_stored_strategy_is_used_instead_of_a_search(cache, monkeypatch):
    planted = (block(TOTAL, [[S - 7]], np.int64), block(finest("a"), 7 * np.eye(5), np.int64))
    cache.save(WORKLOAD.fingerprint, planted, 12.5, 4)
    monkeypatch.setattr(selection, "_search", None)
    found = select(WORKLOAD, cache=cache)
    assert_same(found.blocks, planted)
    assert found.error == 12.5


def test_another_workload_does_not_find_it(cache):
    select(WORKLOAD, cache=cache)
    assert cache.load(Workload.of([total()]).fingerprint) is None


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_counts_as_absent(cache, data):
    select(WORKLOAD, cache=cache)
    cache.save(WORKLOAD.fingerprint, select(WORKLOAD).blocks, 1.0, 4)
    [path] = cache.directory.iterdir()
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert cache.load(WORKLOAD.fingerprint) is None


def test_a_damaged_file_is_mended_by_the_next_selection(cache):
    select(WORKLOAD, cache=cache)
    [path] = cache.directory.iterdir()
    sound = path.read_bytes()
    path.write_bytes(b"PK\x03\x04 nothing of the kind")
    selection._known.clear()
    strategy = select(WORKLOAD, cache=cache)
    assert path.read_bytes() != b"PK\x03\x04 nothing of the kind"
    assert_same(cache.load(WORKLOAD.fingerprint)[0], strategy.blocks)
    assert len(path.read_bytes()) == len(sound)


def test_a_directory_that_cannot_be_written_to_is_harmless(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        selection._known.clear()
        assert select(WORKLOAD, cache=StrategyCache(directory)).blocks
    assert (tmp_path / "file").read_text() == "in the way"


def test_the_directory_is_the_named_one_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SQLMADP_CACHE", str(tmp_path / "named"))
    assert default_directory() == tmp_path / "named"
    monkeypatch.delenv("SQLMADP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "sqlmadp"
