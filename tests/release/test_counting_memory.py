"""What could not be counted within the plan's memory is refused before any record is read."""

import itertools

import numpy as np
import pytest

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.collective import Joint
from sqlmadp.release.release import require_memory
from sqlmadp.sql.limits import Limits
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

NAMES = [f"c{number:02}" for number in range(80)]
DOMAIN = Domain(
    table="t",
    columns=tuple(
        Column(name=n, type="integer", minimum=0, maximum=9, complete=True) for n in NAMES
    ),
)
PAIRS = [Rows(pair, (Partition.finest(10),) * 2, 1) for pair in itertools.combinations(NAMES, 2)]


def read_by_all(blocks):
    return Joint(tuple(blocks), len(blocks), (tuple(range(len(blocks))),), np.zeros(1))


def test_the_refusal_names_the_sizes_and_what_to_do():
    everything = read_by_all(PAIRS)
    with pytest.raises(NotSupportedError) as refused:
        require_memory(everything, DOMAIN, Limits(memory=600))
    assert "3,160 sets of columns, which could take 873 MB; 600 are allowed" in str(refused.value)
    assert "Nothing was read or spent" in str(refused.value)
    assert "[limits] memory" in str(refused.value)


@pytest.mark.slow
def test_what_fits_is_not_refused():
    require_memory(read_by_all(PAIRS), DOMAIN, Limits(memory=900))
    require_memory(read_by_all(PAIRS[:30]), DOMAIN, Limits(memory=600))
