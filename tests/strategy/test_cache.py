"""The cache of strategies on disk: used when it can be, harmless when it cannot."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick import quick_first
from scipy import sparse
from small_collectives import SIZES, random_collective, random_rows

from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Capped, Collective, selected
from sqlmadp.mechanism.complement import Complement
from sqlmadp.strategy import cache as store
from sqlmadp.strategy.cache import Entry, StrategyCache, default_directory
from sqlmadp.strategy.integers import Strategy, certified
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.workload.questions import Question, Workload

TOTAL = 1 << 12
A, B = Partition.finest(5), Partition.finest(2)
SALARIES = Partition.of_functions(np.vstack([np.ones(30), np.arange(30.0)]))
COLUMNS = {"a": 5, "b": 2, "v": 30}
WORKLOAD = (
    Rows(("a",), (A,), 1.0),
    Rows(("a", "b"), (A, B), 0, sparse.csr_array(np.tri(10))),
    Rows(("v",), (SALARIES,), 0, sparse.csr_array(np.array([[1.0, 1], [0, 29]]))),
)


def whole(scope: tuple[str, ...], parts: tuple[Partition, ...], rows: object) -> Rows:
    return Rows(scope, parts, 0, sparse.csr_array(np.array(rows, dtype=np.int64)))


def planted() -> Strategy:
    """Return a strategy for the workload that no search would select."""
    blocks = (
        Rows(("v",), (SALARIES,), 40),
        Rows(("a",), (A,), TOTAL - 47),
        whole(("a", "b"), (A, B), np.eye(10)),
        # Single blocks need not be uniform: only all of them together are.
        whole(("a",), (A,), np.diag([0, 1, 2, 3, 4])),
        whole(("a", "b"), (A, B), np.diag([6, 6, 5, 5, 4, 4, 3, 3, 2, 2])),
    )
    return Strategy(blocks, TOTAL)


@pytest.fixture
def cache(tmp_path: Path) -> StrategyCache:
    return StrategyCache(tmp_path / "deep" / "cache")


def assert_same(ours: tuple[Rows, ...], theirs: tuple[Rows, ...]) -> None:
    assert [block.fingerprint for block in ours] == [block.fingerprint for block in theirs]
    assert [type(block) for block in ours] == [type(block) for block in theirs]


def never(workload: object, capped: object) -> Strategy:
    raise AssertionError("searched")


def collective(cache: StrategyCache, selector: object = selected) -> Collective:
    return Collective([WORKLOAD], [Fraction(1)], columns=COLUMNS, cache=cache, selector=selector)


def test_a_strategy_comes_back_from_disk_as_it_was(cache: StrategyCache) -> None:
    [fresh] = collective(cache).strategies
    assert len([*cache.directory.iterdir()]) == 1
    [found] = collective(cache, never).strategies
    assert_same(found.blocks, fresh.blocks)
    assert (found.error, found.total) == (fresh.error, fresh.total)
    [without] = Collective([WORKLOAD], [Fraction(1)], columns=COLUMNS).strategies
    assert without.error == fresh.error


@pytest.mark.parametrize("seed", quick_first(1, range(2)))
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_mechanism_chooses_the_same_with_an_empty_a_full_and_no_cache(
    cache: StrategyCache, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = random_collective(seed)
    found = [mechanism(name).select(plain)]
    for selector in (selected, never):
        if selector is never:
            monkeypatch.setattr("sqlmadp.mechanism.capped.Search", None)
        again = Collective(
            plain.workloads, plain.shares, columns=SIZES, cache=cache, selector=selector
        )
        found.append(mechanism(name).select(again))
    for other in found[1:]:
        assert_same(other.blocks, found[0].blocks)
        assert other.errors.tolist() == found[0].errors.tolist()
        assert (other.total, other.reads) == (found[0].total, found[0].reads)


def test_what_late_analysts_add_is_found_again(
    cache: StrategyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [random_rows(np.random.default_rng(3))]
    epsilons = [None, *random_collective(2).shares[1:]]
    found = []
    for selector in (selected, never):
        everyone = Collective(
            random_collective(2).workloads,
            random_collective(2).shares,
            columns=SIZES,
            cache=cache,
            selector=selector,
        )
        found.append(Complement(known=known).select(everyone, epsilons))
        monkeypatch.setattr("sqlmadp.mechanism.capped.Search", None)
    assert_same(found[0].strategy.blocks, found[1].strategy.blocks)
    assert found[0].errors.tolist() == found[1].errors.tolist()


def key_of(everyone: Collective, cache: StrategyCache) -> str:
    """Return the digest under which an analyst's own strategy is stored."""
    before = set(cache.directory.glob("*"))
    assert everyone.strategies
    [path] = set(cache.directory.glob("*")) - before
    return path.name.removeprefix("strategy-")


def test_a_stored_strategy_is_used_instead_of_a_search(cache: StrategyCache) -> None:
    cache.save(key_of(collective(cache), cache), Entry((planted(),)))
    [found] = collective(cache, never).strategies
    assert_same(found.blocks, planted().blocks)
    [error] = certified(planted().blocks, TOTAL, [WORKLOAD])
    assert found.error == error


def test_a_stored_strategy_above_a_cap_is_not_used(cache: StrategyCache) -> None:
    asked = Workload.of([Question((rows,)) for rows in WORKLOAD])
    assert asked.caps is not None
    capped = Capped(asked.parts, tuple(asked.caps))
    everyone = Collective([asked.rows], [Fraction(1)], capped=[capped], cache=cache)
    name = key_of(everyone, cache)
    cache.save(name, Entry((planted(),)))  # It hardly measures the sums.
    again = Collective([asked.rows], [Fraction(1)], capped=[capped], cache=cache)
    assert_same(again.strategies[0].blocks, everyone.strategies[0].blocks)


def test_products_of_factors_come_back_too(cache: StrategyCache) -> None:
    factors = tuple(sparse.csr_array(np.eye(n, dtype=np.int64)) for n in (5, 2))
    grid = Products(("a", "b"), (A, B), 0, None, factors, np.full((5, 2), TOTAL))
    cache.save("f", Entry((Strategy((grid,), TOTAL),)))
    found = cache.load("f", COLUMNS)
    assert found is not None
    assert_same(found.strategies[0].blocks, (grid,))
    uneven = replace(grid, heights=TOTAL + np.arange(10).reshape(5, 2))
    cache.save("f", Entry((Strategy((uneven,), TOTAL),)))
    assert cache.load("f", COLUMNS) is None


def test_strategies_that_are_none_count_as_absent(cache: StrategyCache) -> None:
    sums, cells, *rest = planted().blocks
    small = Partition.finest(2)
    uneven = whole(("v",), (SALARIES,), [[7, 0], [0, 8]])
    for blocks, total in [
        ((sums, cells, *rest), 2 * TOTAL),
        ((sums, cells, *rest[:-1]), TOTAL),
        ((sums, Rows(("a",), (A,), TOTAL - 46), *rest), TOTAL),
        ((sums,), TOTAL),
        ((sums, cells, *rest[:-1], Rows(("c",), (small,), 6)), TOTAL),
        ((Rows(("a",), (small,), TOTAL),), TOTAL),
        ((Rows(("a",), (A,), TOTAL - 7), uneven), TOTAL),
        ((), 0),
    ]:
        cache.save("f", Entry((Strategy(blocks, total),)))
        assert cache.load("f", COLUMNS) is None
    cache.save("f", Entry((planted(),)))
    assert cache.load("f", COLUMNS) is not None


def numbers(*values: int) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


FORGERIES = {
    "a place outside": lambda c: setattr(c.strategies[0].blocks[2].matrices[0], "places", nine(10)),
    "a place below 0": lambda c: setattr(c.strategies[0].blocks[2].matrices[0], "places", nine(-1)),
    "lengths below 0": lambda c: setattr(
        c.strategies[0].blocks[2].matrices[0], "lengths", numbers(-1, 11)
    ),
    "lengths that overflow": lambda c: setattr(
        c.strategies[0].blocks[2].matrices[0], "lengths", numbers(*[2**62] * 8)
    ),
    "no lengths": lambda c: setattr(c.strategies[0].blocks[2].matrices[0], "lengths", b""),
    "half a number": lambda c: setattr(c.strategies[0].blocks[2].matrices[0], "values", b"abc"),
    "a value of 63 bits": lambda c: setattr(
        c.strategies[0].blocks[2].matrices[0], "values", numbers(*[-(2**63)] * 10)
    ),
    "an unknown column": lambda c: setattr(c.strategies[0].blocks[0], "scope", [9]),
    "a column below 0": lambda c: setattr(c.strategies[0].blocks[0], "scope", [-1]),
    "a column twice": lambda c: setattr(c.strategies[0].blocks[2], "scope", [0, 0]),
    "an unknown partition": lambda c: setattr(c.strategies[0].blocks[0], "parts", [99]),
    "a partition too few": lambda c: setattr(c.strategies[0].blocks[2], "parts", [0]),
    "a negative weight": lambda c: setattr(c.strategies[0].blocks[0], "weight", -40),
    "no weight": lambda c: setattr(c.strategies[0].blocks[0], "weight", 0),
    "heights of no factors": lambda c: setattr(c.strategies[0].blocks[0], "heights", numbers(1, 2)),
    "a total below 0": lambda c: setattr(c.strategies[0], "total", -TOTAL),
    "pieces out of order": lambda c: setattr(c.partitions[1], "pieces", numbers(1, 0, 2, 3, 4)),
    "pieces below 0": lambda c: setattr(c.partitions[1], "pieces", numbers(-1, 0, 1, 2, 3)),
    "a degree of 3": lambda c: setattr(c.partitions[0], "degrees", numbers(3)),
    "a degree too many": lambda c: setattr(c.partitions[1], "degrees", numbers(*[0] * 6)),
    "steps past the end": lambda c: setattr(c.partitions[0], "slopes", numbers(2)),
    "steps that overflow": lambda c: setattr(c.partitions[0], "slopes", numbers(2**62)),
    "runs out of order": lambda c: setattr(c.partitions[1], "starts", numbers(0, 2, 1, 3, 4)),
    "runs that begin late": lambda c: setattr(c.partitions[1], "starts", numbers(*range(1, 6))),
    "values too many": lambda c: setattr(c.partitions[1], "values", 2**62),
    "a run too few": lambda c: setattr(c.partitions[1], "slopes", numbers(0, 0)),
    "a run that could be longer": lambda c: (
        setattr(c.partitions[0], "starts", numbers(0, 9)),
        setattr(c.partitions[0], "pieces", numbers(0, 0)),
        setattr(c.partitions[0], "steps", numbers(0, 9)),
        setattr(c.partitions[0], "slopes", numbers(1, 1)),
    ),
    "a unit of 0": lambda c: setattr(c.partitions[0], "unit", 0),
    "steps on a single vertex": lambda c: setattr(c.partitions[1], "steps", numbers(*[1] * 5)),
}


def nine(last: int) -> bytes:
    return numbers(*range(9), last)


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_file_with_a_forged_list_counts_as_absent(cache: StrategyCache, name: str) -> None:
    cache.save("f", Entry((planted(),)))
    assert cache.load("f", COLUMNS) is not None
    plain = store.zlib.decompress(cache.path("f").read_bytes())
    content = msgspec.msgpack.decode(plain, type=store._Content)
    FORGERIES[name](content)
    cache.path("f").write_bytes(store.zlib.compress(msgspec.msgpack.encode(content)))
    assert cache.load("f", COLUMNS) is None


def test_a_file_that_unpacks_to_more_than_is_allowed_counts_as_absent(
    cache: StrategyCache,
) -> None:
    for length, sound in ((2**20, True), (store.MAX_BYTES, False)):
        cache.save("f", Entry((planted(),), ("x" * length,)))
        assert (cache.load("f", COLUMNS) is not None) is sound


def test_a_pickle_is_never_run(cache: StrategyCache, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    cache.directory.mkdir(parents=True)
    with cache.path("f").open("wb") as file:
        np.savez(file, names=np.array([Payload()], dtype=object))
    assert cache.load("f", COLUMNS) is None
    assert not (tmp_path / "ran").exists()


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_file_counts_as_absent_or_is_as_it_was(
    cache: StrategyCache, data: st.DataObject
) -> None:
    cache.save("f", Entry((planted(),)))
    path = cache.path("f")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    found = cache.load("f", COLUMNS)
    if found is not None:  # A few bits of the header do not matter: then nothing has changed.
        assert_same(found.strategies[0].blocks, planted().blocks)
        assert found.strategies[0].total == TOTAL


def test_a_damaged_file_is_mended_by_the_next_selection(cache: StrategyCache) -> None:
    name = key_of(collective(cache), cache)
    sound = cache.path(name).read_bytes()
    cache.path(name).write_bytes(b"PK\x03\x04 nothing of the kind")
    assert collective(cache).strategies
    assert cache.path(name).read_bytes() == sound


def test_a_directory_that_cannot_be_written_to_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        assert collective(StrategyCache(directory)).strategies[0].blocks
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("name", ["pareto", "ratchet"])
@pytest.mark.parametrize("seed", quick_first(2, range(6)))
def test_a_planted_joint_strategy_cannot_break_a_promise(
    cache: StrategyCache, name: str, seed: int
) -> None:
    """Every stored strategy is replaced by one that measures a single column most of all."""
    plain = random_collective(seed)

    def again() -> Collective:
        return Collective(plain.workloads, plain.shares, columns=SIZES, cache=cache)

    honest = mechanism(name).select(again())
    for path in cache.directory.iterdir():
        digest = path.name.removeprefix("strategy-")
        entry = cache.load(digest, SIZES)
        if entry is None or (len(entry.strategies) < 2 and not entry.words):
            continue
        poor = [
            Strategy(
                (*(b.times(1) for b in each.blocks), Rows(("c",), (Partition.finest(2),), 10**7)),
                each.total + 10**7,
            )
            for each in entry.strategies
        ]
        cache.save(digest, Entry(tuple(poor), entry.words))
    found = mechanism(name).select(again())
    assert (found.errors <= plain.alone * (1 + 1e-9)).all()
    if name == "pareto":
        assert (found.errors <= plain.poured.errors * (1 + 1e-9)).all()
    assert (found.errors <= honest.errors * 1.5).any()


def test_the_directory_is_the_named_one_or_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SQLMADP_CACHE", str(tmp_path / "named"))
    assert default_directory() == tmp_path / "named"
    monkeypatch.delenv("SQLMADP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "sqlmadp"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_directory() == tmp_path / "home" / ".cache" / "sqlmadp"
