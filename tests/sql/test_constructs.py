import constructs
import pytest


@pytest.mark.slow
def test_the_table_of_constructs_says_what_binding_does():
    assert constructs.written() == constructs.fragment()


def test_a_refusal_always_has_a_reason_and_an_accepted_construct_none():
    rows = [line for line in constructs.written().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(constructs.CONSTRUCTS) >= 75
    assert all(row.endswith(" accepted |") or " refused: " in row for row in rows)


def test_the_table_of_limits_is_what_the_code_says():
    assert constructs.written(constructs.LIMIT_MARKS) == constructs.limits_table()
