"""The cache of strategies on disk: used when it can be, harmless when it cannot."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from small_tables import block, finest, histogram, total

from sqlmadp.asked import Asked
from sqlmadp.plan import Plan
from sqlmadp.schema.kronecker import KroneckerBlock, contents
from sqlmadp.schema.marginal import TOTAL, CellBlock, Marginal, Partition
from sqlmadp.strategy import cache as store
from sqlmadp.strategy import select as selection
from sqlmadp.strategy.cache import StrategyCache, default_directory
from sqlmadp.strategy.integer import S
from sqlmadp.strategy.select import select
from sqlmadp.workload.solver import solver_for
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
    blocks, error, total = cache.load(WORKLOAD.fingerprint, WORKLOAD)
    assert total == strategy.total
    assert_same(blocks, strategy.blocks)
    assert error == strategy.error
    assert len([*cache.directory.iterdir()]) == 1


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["census", "covid", "hospital", "web"])
def test_the_strategies_of_real_plans_are_found_again(cache, name):
    asked = Asked.bind(Plan.open(EXAMPLES / name / "plan.toml"))
    for workload in asked.workloads:
        strategy = select(workload, cache=cache)
        blocks, error, summed = cache.load(workload.fingerprint, workload)
        assert contents(blocks) == contents(strategy.blocks)
        assert (error, summed) == (strategy.error, strategy.total)


@pytest.fixture
def planted():
    """Return a strategy for the workload that no search would select, and its error."""
    blocks = [
        block(TOTAL, [[S // 2 - 7]], np.int64),
        CellBlock(finest("a"), S // 2),
        block(finest("a", "c"), np.eye(10), np.int64),
        # Rows of few columns stand by themselves: only all blocks together are uniform.
        block(finest("a"), np.diag([0, 1, 2, 3, 4]), np.int64),
        block(finest("a", "c"), np.diag([6, 6, 5, 5, 4, 4, 3, 3, 2, 2]), np.int64),
    ]
    return blocks, S**2 * solver_for(blocks).total(WORKLOAD.by_scope)


def test_a_stored_strategy_is_used_instead_of_a_search(cache, monkeypatch, planted):
    blocks, error = planted
    cache.save(WORKLOAD.fingerprint, blocks, error, S)
    monkeypatch.setattr(selection, "_search", None)
    found = select(WORKLOAD, cache=cache)
    assert_same(found.blocks, blocks)
    assert found.error == error


def test_products_of_factors_come_back_too(cache):
    factors = [sparse.csr_array(np.eye(n, dtype=np.int64)) for n in (5, 2)]
    kronecker = KroneckerBlock(finest("a", "c"), factors, np.full((5, 2), S))
    error = S**2 * solver_for([kronecker]).total(WORKLOAD.by_scope)
    cache.save("f", [kronecker], error, S)
    ((found,), *_) = cache.load("f", WORKLOAD)
    assert isinstance(found, KroneckerBlock)
    assert_same([found], [kronecker])
    uneven = KroneckerBlock(finest("a", "c"), factors, S + np.arange(10).reshape(5, 2))
    cache.save("f", [uneven], error, S)
    assert cache.load("f", WORKLOAD) is None


def test_nothing_that_a_file_claims_is_believed(cache, planted):
    (whole, cells, *rest), error = planted
    for blocks, claimed, summed in [
        ([whole, cells, *rest], error / 2, S),
        ([whole, cells, *rest], error * 1.001, S),
        ([whole, cells, *rest], float("nan"), S),
        ([whole, cells, *rest], error, 2 * S),
        ([whole, cells, *rest[:-1]], error, S),
        ([whole, CellBlock(finest("a"), S // 2 + 1), *rest], error, S),
        ([whole], error, S),
        ([block(TOTAL, [[S]], np.int64)], error, S),
        ([whole, cells, *rest[:-1], CellBlock(finest("b"), 7)], error, S),
        ([CellBlock(Marginal(("a",), (Partition.finest(2),)), S)], error, S),
        ([], 0.0, 0),
    ]:
        cache.save(WORKLOAD.fingerprint, blocks, claimed, summed)
        assert cache.load(WORKLOAD.fingerprint, WORKLOAD) is None
    cache.save(WORKLOAD.fingerprint, [whole, cells, *rest], error, S)
    assert cache.load(WORKLOAD.fingerprint, WORKLOAD) is not None


def forged(arrays, changes):
    return store._encoded(arrays | {n: np.array(v, dtype=np.int64) for n, v in changes.items()})


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": [10**9]},
        {"indices": [-1]},
        {"row_lengths": [-1, 2]},
        {"row_lengths": [2**62, 2**62]},
        {"row_ends": [10**12]},
        {"data_ends": [-5]},
        {"label_ends": [3]},
        {"labels": [7]},
        {"labels": [-1]},
        {"scopes": [0, 99]},
        {"scopes": [-1, 0]},
        {"scopes": [0]},
        {"scope_ends": [2, 1]},
        {"weights": []},
        {"weights": [-(2**63)]},
        {"data": [2**62]},
        {"heights": [1, 2, 3]},
        {"error": []},
        {"total": [-1]},
    ],
    ids=str,
)
def test_a_file_with_a_forged_list_counts_as_absent(cache, planted, changes):
    blocks, error = planted
    arrays = store.packed(blocks) | {"error": np.array([error]), "total": np.array([S])}
    spread = {
        name: np.resize(values, len(arrays[name])) if len(values) == 1 else values
        for name, values in changes.items()
    }
    cache.save("f", blocks, error, S)
    assert cache.load("f", WORKLOAD) is not None
    for forgery in (changes, spread):
        cache._path("f").write_bytes(forged(arrays, forgery))
        assert cache.load("f", WORKLOAD) is None


def test_a_file_that_unpacks_to_more_than_is_allowed_counts_as_absent(cache, monkeypatch):
    select(WORKLOAD, cache=cache)
    monkeypatch.setattr(store, "MOST_BYTES", 100)
    assert cache.load(WORKLOAD.fingerprint, WORKLOAD) is None


def test_a_pickle_is_never_run(cache, tmp_path):
    class Payload:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    cache.directory.mkdir(parents=True)
    with cache._path("f").open("wb") as file:
        np.savez(file, names=np.array([Payload()], dtype=object))
    assert cache.load("f", WORKLOAD) is None
    assert not (tmp_path / "ran").exists()


def test_another_workload_does_not_find_it(cache):
    select(WORKLOAD, cache=cache)
    other = Workload.of([total()])
    assert cache.load(other.fingerprint, other) is None


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_counts_as_absent(cache, data):
    selection._known.clear()
    select(WORKLOAD, cache=cache)
    [path] = cache.directory.iterdir()
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert cache.load(WORKLOAD.fingerprint, WORKLOAD) is None
    path.unlink()


def test_a_damaged_file_is_mended_by_the_next_selection(cache):
    select(WORKLOAD, cache=cache)
    [path] = cache.directory.iterdir()
    sound = path.read_bytes()
    path.write_bytes(b"PK\x03\x04 nothing of the kind")
    selection._known.clear()
    strategy = select(WORKLOAD, cache=cache)
    assert path.read_bytes() != b"PK\x03\x04 nothing of the kind"
    assert_same(cache.load(WORKLOAD.fingerprint, WORKLOAD)[0], strategy.blocks)
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
