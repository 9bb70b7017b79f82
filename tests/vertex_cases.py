"""Random partitions with segments and parabolas, and their sums over records in plain Python."""

import math

import numpy as np

from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def random_partition(random, cells, most_pieces=4):
    """Return pieces of any degree; along each, steps are a line or anything at all."""
    labels = np.array([random.randrange(most_pieces) for _ in range(cells)])
    if random.random() < 0.5:
        labels = np.sort(labels)
    pieces = Partition.flat(labels).pieces
    unit = random.choice([1, 2, 7, 1000, 2**20])
    steps = np.array([random.randint(0, unit) for _ in range(cells)], dtype=np.int64)
    if random.random() < 0.6:
        steps = np.arange(cells, dtype=np.int64) % (unit + 1)
        steps = unit - steps if random.random() < 0.3 else steps
    degrees = np.array([random.randrange(3) for _ in range(pieces.max() + 1)], dtype=np.int64)
    return Partition(pieces, np.where(degrees[pieces] > 0, steps, 0), degrees, unit)


def random_layouts(random, domain, count=4, most_columns=3):
    """Return some layouts of a domain, as rows of weight 1 on every vertex."""
    names = sorted(column.name for column in domain.columns)
    found = []
    for _ in range(count):
        chosen = random.sample(names, random.randint(0, min(most_columns, len(names))))
        scope = tuple(sorted(chosen))
        parts = [random_partition(random, domain.column(name).size) for name in scope]
        found.append(Rows(scope, tuple(parts), 1))
    return found


def weights(rows, cells):
    """Return the whole weights of one record on the vertices; ``cells`` by column."""
    product = np.ones(1, dtype=object)
    for name, part in zip(rows.scope, rows.parts, strict=True):
        own = part.numerators[:, [cells[name]]].toarray().reshape(-1).astype(object)
        product = np.multiply.outer(product, own).reshape(-1)
    return product


def vertex_sums(rows, records):
    """Return the sum at every vertex over records, each the cells of its columns by name."""
    total = np.zeros(rows.size, dtype=object)
    for cells in records:
        total += weights(rows, cells)
    return np.minimum(total, 2**62).astype(np.int64)


def units_of(rows):
    """Return the sum of one record's weights."""
    return math.prod(part.unit ** int(part.degrees.max()) for part in rows.parts)
