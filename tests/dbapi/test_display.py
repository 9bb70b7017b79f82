"""What a notebook and a terminal show of cursors, results and certificates."""

import sqlmadp

BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex"


def test_a_cursor_shows_a_table_with_a_plus_minus_column(connection):
    cursor = connection.execute(BY_SEX)
    text = repr(cursor).splitlines()
    assert text[0].split() == ["sex", "n", "±"]
    assert len(text) == 4
    page = cursor._repr_html_()
    assert page.count("<tr>") == 4
    assert ">±</th>" in page


def test_showing_a_cursor_fetches_nothing(connection):
    cursor = connection.execute(BY_SEX)
    repr(cursor), str(cursor), cursor._repr_html_()
    assert len(cursor.fetchall()) == 3


def test_the_content_of_a_cell_is_text_and_not_html(connection):
    page = connection.execute("SELECT '<script>' AS \"<b>\", COUNT(*) FROM visits")._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;" in page


def test_before_the_release_a_cursor_shows_expected_errors(staging):
    cursor = staging.execute(BY_SEX)
    assert "expected ±" in str(cursor)
    assert "pending" in str(cursor)
    assert "pending" in repr(cursor)
    assert "expected ±" in cursor._repr_html_()


def test_a_cursor_without_a_statement_shows_no_table(connection):
    cursor = connection.cursor()
    assert repr(cursor) == str(cursor) == "<cursor>"
    assert cursor._repr_html_() is None
    cursor.close()
    assert repr(cursor) == "<closed cursor>"
    assert cursor._repr_html_() is None


def test_certificates_and_previews_are_tables(released):
    plan = sqlmadp.Plan.open(released)
    release = plan.released()
    assert "alice" in repr(release.certificate)
    assert "<table>" in release.certificate._repr_html_()
    previews = plan.preview("waterfilling", "identity")
    assert repr(previews).splitlines()[0].split()[:3] == ["mechanism", "alice", "bob"]
    assert "waterfilling" in previews._repr_html_()
