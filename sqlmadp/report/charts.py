"""Charts of a release: errors by mechanism, what is measured, the budget over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from sqlmadp.answer.result import number
from sqlmadp.report.buckets import Bucket, Pool
from sqlmadp.report.content import Content, Member
from sqlmadp.report.drawing import (
    LETTER,
    WIDTH,
    box,
    breadth,
    chart,
    dot,
    label,
    line,
    short,
    ticks,
)
from sqlmadp.report.markup import Markup, join

WORSE = 1 + 1e-9
"""A ratio above this is a violation; what is below is the last digits of floating point."""

KINDS = 8
"""Fills that parts of different analysts are told apart by; further ones begin again."""

SLANT = math.radians(60)
"""How far the names below buckets are turned."""
LONGEST_NAME = 24 * LETTER
"""Units of such a name that are shown."""


def fills(content: Content) -> dict[str | None, str]:
    """Return the fill of every analyst's part; of whatever is nobody's own, plain."""
    names = [member.name for member in content.members]
    return {name: f"fill{n % KINDS}" for n, name in enumerate(names)} | {None: "fill-all"}


def standings_chart(member: Member, chosen: str, ends: tuple[float, float]) -> Markup:
    """Return an analyst's error alone and in the collective, one row a mechanism."""
    left, right, top, step = 150, 96, 8, 24
    place = _scale(*ends, left, WIDTH - right)
    parts = []
    for row, (name, standing) in enumerate(member.standings.items()):
        y = top + step * row + step / 2
        worse = standing.ratio > WORSE
        mine = name == chosen
        if mine:
            parts.append(box(0, y - step / 2, WIDTH, step, "band"))
        alone, together = place(standing.alone), place(standing.together)
        figures = f"{number(standing.alone)} → {number(standing.together)}"
        parts += [
            label(4, y + 4, name.replace("_", " "), "strong" if mine else "", room=left - 6),
            line(alone, y, together, y, "bad-line" if worse else "good-line"),
            dot(alone, y, 4, "hollow"),
            dot(together, y, 4, "bad" if worse else "good"),
            label(WIDTH - 12, y + 4, figures, "end small"),
            label(WIDTH - 2, y + 4, "!" if worse else "", "end strong"),
        ]
    bottom = top + step * len(member.standings)
    parts += _bottom_axis(ends, place, bottom)
    best = member.standings[chosen]
    description = (
        f"Under {chosen} a typical answer's error is {number(best.together)}, alone "
        f"{number(best.alone)}. " + _in_words(member)
    )
    title = f"{member.name}: error of a typical answer, by mechanism"
    return chart(bottom + 18, title, description, *parts)


def error_ends(members: Sequence[Member]) -> tuple[float, float]:
    """Return the smallest and largest error of all charts, so that they share one axis."""
    errors = [
        error
        for member in members
        for standing in member.standings.values()
        for error in (standing.alone, standing.together)
    ]
    return min(errors), max(errors)


def _in_words(member: Member) -> str:
    return "; ".join(
        f"{name}: {number(s.alone)} alone, {number(s.together)} together"
        for name, s in member.standings.items()
    )


def _scale(low: float, high: float, left: float, right: float) -> Callable[[float], float]:
    """Return where a number lies between left and right; by its logarithm if they differ much."""
    if low > 0 and high / low > 20:
        first, last = math.log(low), math.log(high)
        return lambda v: left + (math.log(v) - first) / (last - first) * (right - left)
    return lambda v: left + (v / high if high else 0.0) * (right - left)


def _bottom_axis(
    ends: tuple[float, float], place: Callable[[float], float], y: float
) -> list[Markup]:
    low, high = ends
    if low > 0 and high / low > 20:
        powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        marks = [10.0**power for power in powers]
    else:
        marks = ticks(0, high, 3)
    found = []
    for mark in marks:
        x = place(mark)
        found += [line(x, y, x, y + 3, "axis"), label(x, y + 14, short(mark), "middle small")]
    return found


def pools_chart(pools: Sequence[Pool], kinds: Mapping[str | None, str]) -> Markup:
    """Return which part of epsilon goes into questions over which columns, and from whom."""
    top, step, bar = 4, 38, 14
    most = max(sum(pool.parts.values()) for pool in pools)
    parts = []
    for row, pool in enumerate(pools):
        y = top + step * row
        whole = sum(pool.parts.values())
        questions = f"{pool.questions:,} question{'s' * (pool.questions != 1)}"
        columns = " × ".join(pool.columns) or "all records"
        parts += [
            label(0, y + 11, f"{questions} about {columns}", room=WIDTH - 50),
            label(WIDTH, y + 11, f"{whole:.1%}", "end small"),
        ]
        x = 0.0
        for who, part in pool.parts.items():
            width = part / most * WIDTH
            hint = f"{who or 'others'}: {part:.1%} of epsilon"
            parts.append(box(x, y + 16, width, bar, kinds[who], hint=hint))
            x += width
    described = "; ".join(
        f"{' and '.join(pool.columns) or 'all records'}: {pool.questions} questions, "
        + ", ".join(f"{who or 'others'} {part:.1%}" for who, part in pool.parts.items())
        for pool in pools
    )
    return chart(top + step * len(pools), "What epsilon is spent on", described, *parts)


def buckets_chart(buckets: Sequence[Bucket], kinds: Mapping[str | None, str]) -> Markup:
    """Return every measured question as a bucket, filled with what each analyst poured in."""
    top, height = 6, 120
    wanted = min(max(breadth(bucket.name) for bucket in buckets), LONGEST_NAME)
    names = wanted * 0.9 + 12  # Small letters, and some room to the bucket.
    left = names * math.cos(SLANT)
    room = (WIDTH - left) / len(buckets)
    width = min(room * 0.82, 34)
    most = max(bucket.level for bucket in buckets)
    parts = []
    for n, bucket in enumerate(buckets):
        x = left + room * n + (room - width) / 2
        y = float(top + height)
        for who, part in bucket.parts.items():
            level = part / bucket.size * bucket.level / most * (height - 8)
            y -= level
            hint = f"{bucket.name}: {who or 'others'} {part:.1%} of epsilon"
            parts.append(box(x, y, width, level, kinds[who], hint=hint))
        ends = (x, float(top)), (x, top + height), (x + width, top + height), (x + width, top)
        parts += [line(*a, *b, "glass") for a, b in pairwise(ends)]
        middle = x + width / 2 + 4
        parts.append(_slanted(middle, top + height + 12, bucket.name, wanted))
    described = "; ".join(
        f"{b.name}: " + ", ".join(f"{who or 'others'} {part:.1%}" for who, part in b.parts.items())
        for b in buckets
    )
    title = "Every measured question as a bucket"
    return chart(top + height + names * math.sin(SLANT) + 6, title, described, *parts)


def _slanted(x: float, y: float, words: str, room: float) -> Markup:
    """Return a label below a bucket, read from the lower left to the upper right."""
    shown = label(0, 0, words, "end small", room=room)
    turn = f"translate({x:.1f} {y:.1f}) rotate({-math.degrees(SLANT):.0f})"
    turned = Markup(f'<g transform="{turn}">')
    return join([turned, shown, Markup("</g>")])


def budget_chart(content: Content) -> Markup:
    """Return what each release has spent of the budget, one below the other, and what is left."""
    top, step, bar = 4, 34, 12
    budget = float(content.budget)
    rows: list[tuple[str, float, float, str]] = []
    spent = 0.0
    for charge in content.charges:
        epsilon = float(charge.epsilon)
        when = charge.time.replace("T", " ")[:16]
        named = f"{when}: epsilon {charge.epsilon}" + (" (this release)" if charge.this else "")
        rows.append((named, spent, epsilon, "this" if charge.this else "spent"))
        spent += epsilon
    if content.released is None:
        epsilon = float(content.charge)
        rows.append((f"this plan: epsilon {content.charge}", spent, epsilon, "planned"))
        spent += epsilon
    parts = []
    for row, (named, start, size, kind) in enumerate(rows):
        y = top + step * row
        x, width = start / budget * WIDTH, size / budget * WIDTH
        parts += [
            label(0, y + 11, named, room=WIDTH),
            box(0.5, y + 15.5, WIDTH - 1, bar, "empty"),
            box(x, y + 15, min(width, WIDTH - x), bar + 1, kind),
        ]
    described = "; ".join(named for named, *_ in rows) + f"; the budget is {content.budget}"
    return chart(top + step * len(rows), "Budget over time", described, *parts)
