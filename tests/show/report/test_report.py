"""The report as text: what it says, to whom, and that nothing in it is taken for markup."""

import csv
import re
from dataclasses import asdict
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse
from show.report.hostile import ALIAS, ANALYST, COMMENT, VALUE

from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.show import MAX_CSV_BYTES
from sqlmadp.show.report import write_report
from sqlmadp.show.report.content import gather, weight
from sqlmadp.show.report.markup import Markup, download, element
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products

TOTAL = "-- name: all\nSELECT COUNT(*) AS n FROM visits"
AGES = "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits GROUP BY age"


class Outline(HTMLParser):
    """The elements of a page, its headings and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.headings, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", ["preview", "released", "bob", "carol"])
class TestEveryPage:
    def test_it_needs_no_other_file(self, pages, name):
        text = pages.text(name)
        outline = Outline(text)
        assert not {"link", "img", "iframe", "object", "embed"} & set(outline.tags)
        links = [value for key, value in outline.attributes if key in {"src", "href"}]
        assert all(link.startswith(("#", "data:text/csv;")) for link in links)
        assert "http://" not in text
        assert "https://" not in text
        assert outline.tags.count("script") == 1

    def test_takes_no_name_for_markup(self, pages, name):
        text = pages.text(name)
        for attempt in (VALUE, ALIAS, COMMENT, ANALYST):
            assert attempt not in text
        handlers = [key for key, _ in Outline(text).attributes if key.startswith("on")]
        assert handlers == []
        assert "\u202e" not in text

    def test_has_headings_without_a_gap_and_names_for_every_chart(self, pages, name):
        text = pages.text(name)
        headings = Outline(text).headings
        assert headings[0] == 1
        assert headings.count(1) == 1
        for before, after in pairwise(headings):
            assert after <= before + 1
        charts = re.findall(r'<svg [^>]*role="img"[^>]*>', text)
        assert charts
        assert all("aria-label" in chart for chart in charts)
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids))
        for names in re.findall(r'aria-labelledby="([^"]+)"', text):
            assert set(names.split()) <= set(ids)


def words(text):
    return re.sub(r"\s+", " ", " ".join(Outline(text).words))


def test_a_preview_says_that_nothing_is_spent_and_has_no_rows(pages):
    said = words(pages.text("preview"))
    assert "Preview" in said
    assert "Nothing has been spent for this preview" in said
    assert "0 is spent so far, and 2 would be left" in said
    assert 'class="scroll rows"' not in pages.text("preview")
    assert 'class="scroll rows"' in pages.text("released")
    assert "<dt>bobs_count</dt>" not in pages.text("preview")


def test_a_released_page_is_a_certificate_with_rows(pages):
    said = words(pages.text("released"))
    for part in (
        "The analysts ask 7 statements in SQL",
        "spent epsilon 1. Of the whole budget of 3, 1 is spent and 2 is left",
        "adding or removing one record changes the probability of any outcome by at most the "
        "factor 2.72",
        "by at most 20.1",
        "Nobody is worse off than alone with their own share; the expected error of the whole is",
        "nobody does worse than alone with their share (sharing incentive)",
        "Each statement is at least as accurate as alone, one by one; on average",
        "What is not promised",
    ):
        assert part in said
    assert "<dt>bobs_count</dt>" in pages.text("released")


def test_an_analysts_page_has_nothing_of_the_others(pages):
    text = pages.text("carol")
    for part in ("bob", "the_secret_of_bob", "bobs_count", "Neil"):
        assert part not in words(text)
    assert "carol asks 3 statements" in words(text)
    assert re.search(r"answers to carol 3(\.\d)? times as accurate as alone", words(text))
    own = pages.text("bob")
    for part in ("carol", "Neil", "places", "of age", "right-to-left"):
        assert part not in words(own)
    assert "bobs_count" in own


def test_what_a_page_is_made_from_has_nothing_of_the_others_either(plans):
    plan = Plan.open(plans.write({"alice": AGES, "bob": TOTAL}))
    plan.release()
    content = gather(plan, "bob")
    assert {each.analyst for each in content.statements} == {"bob"}
    assert [charge.analysts for charge in content.charges] == [()]
    assert "alice" not in repr(asdict(content))
    assert [(each.columns, each.serves) for each in content.measured] == [((), ("bob",))]


def test_a_violation_is_said_in_the_certificate_and_marked_in_the_chart(plans, tmp_path):
    path = plans.write({"alice": AGES, "bob": AGES, "carol": TOTAL}, mechanism="utilitarian")
    path.write_text('measure = "squared"\n' + path.read_text())
    made = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "page.html")])
    assert made.exit_code == 0, made.output
    said = words((tmp_path / "page.html").read_text())
    assert "Worse off than alone with their own share: carol; the expected error" in said
    assert re.search(r"carol\W+[\d/]+ [\d.,]+ [\d.,]+ \d+\.\d+ !", said)


def test_the_parts_of_what_is_measured_are_the_shares_of_those_who_ask_for_it(plans):
    shares = {"alice": "1/2", "bob": "1/3", "carol": "1/6"}
    path = plans.write({"alice": AGES, "bob": AGES, "carol": TOTAL}, shares=shares)
    before = gather(Plan.open(path)).measured
    assert [(m.name, m.serves) for m in before] == [
        ("age", ("alice", "bob")),
        ("all records", ("carol",)),
    ]
    assert [m.part for m in before] == pytest.approx([5 / 6, 1 / 6], rel=1e-5)
    Plan.open(path).release()
    assert gather(Plan.open(path)).measured == before


def test_a_summed_column_is_named_as_such(plans):
    sums = "-- name: sums\nSELECT sex, SUM(age) AS years FROM visits GROUP BY sex"
    (measured,) = gather(Plan.open(plans.write({"alice": sums}))).measured
    assert measured.name == "sum of age × sex"


def test_a_grid_of_products_weighs_as_much_as_its_rows_written_out():
    parts = (Partition.finest(3), Partition.finest(2))
    factors = (sparse.csr_array(np.eye(3)), sparse.csr_array([[1, 1], [0, -2]]))
    grid = Products(("a", "b"), parts, 0, None, factors, np.array([[1, 2], [3, 0], [5, 7]]))
    written_out = abs(grid.matrix).sum() / 6
    assert weight(grid) == pytest.approx(written_out)


def test_a_plan_that_adds_an_analyst_costs_only_what_the_late_analyst_brings(plans, tmp_path):
    def said(statements):
        path = plans.write(statements, mechanism="waterfilling")
        text = path.read_text().replace('epsilon = "1"\n', "")
        for name in statements:
            text = text.replace(f"[analysts.{name}]", f'[analysts.{name}]\nepsilon = "1/4"')
        path.write_text(text)
        plan, out = Plan.open(path), tmp_path / "page.html"
        write_report(plan, out, mechanisms=["identity"])
        return plan, words(out.read_text())

    plan, _ = said({"alice": AGES, "bob": TOTAL})
    plan.release()
    plan, before = said({"alice": AGES, "bob": TOTAL, "carol": AGES})
    assert "would spend epsilon 1/4. Of the whole budget of 2, 1/2 is spent so far" in before
    plan.release()
    _, after = said({"alice": AGES, "bob": TOTAL, "carol": AGES})
    assert "spent epsilon 1/4. Of the whole budget of 2, 3/4 is spent and 5/4 is left" in after


def ids_of(text):
    return re.findall(r'<section id="(\w+)"', text)


def test_answers_come_first_and_before_a_release_the_expected_accuracy(pages):
    rest = ["privacy", "method"]
    assert ids_of(pages.text("released")) == ["answers", "verdict", "fairness", "accuracy", *rest]
    assert ids_of(pages.text("preview")) == ["accuracy", "verdict", "fairness", "answers", *rest]


def test_plan_and_schema_are_identified(plans):
    path = plans.write({"alice": AGES})
    plan = Plan.open(path)
    release = plan.release()
    write_report(plan, plans.folder / "page.html")
    header = (plans.folder / "page.html").read_text().partition("<main")[0]
    charge = gather(plan).released
    for part in (
        path.name,
        plan.schema_path.name,
        release.asked.schema_id[:12],
        release.asked.release_id[:12],
        charge.time[:10],
    ):
        assert part in header
    assert re.search(r"<dt>epsilon</dt><dd>1</dd>", header)


def test_only_the_mechanism_of_the_plan_is_shown_unless_others_are_named(plans):
    plan = Plan.open(plans.write({"alice": AGES, "bob": TOTAL}))
    out = plans.folder / "page.html"
    write_report(plan, out)
    assert "Other mechanisms" not in out.read_text()
    assert "utilitarian" not in words(out.read_text())
    write_report(plan, out, mechanisms=["utilitarian", "waterfilling"])
    said = words(out.read_text())
    assert "Mechanisms compared" in said
    assert "waterfilling (this plan) 1.00" in said
    plan.release()
    write_report(plan, out, mechanisms=["utilitarian"])
    assert "utilitarian" in words(out.read_text())


def box_of(text):
    return words(re.search('<aside class="box">.*?</aside>', text)[0])


def test_a_box_says_what_is_not_counted(plans):
    schema = plans.folder / "visits.toml"
    schema.write_text(schema.read_text() + '[unit]\ncolumn = "person"\nmax_records = 3\n')
    out = plans.folder / "page.html"
    write_report(Plan.open(plans.write({"alice": TOTAL})), out)
    said = box_of(out.read_text())
    assert "What will not be counted" in said
    assert "At most 3 records per 'person' are counted." in said
    assert "that the schema does not declare is read as NULL: COUNT(*) counts the record" in said
    assert "The curator promises that no record has NULL or an undeclared value in" in said


def downloads(text):
    """Return every file to download, by name, as rows of text."""
    found = re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)" download="([^"]*)"', text)
    return {name: [*csv.reader(unquote(data).splitlines())] for data, name in found}


def test_every_table_can_be_downloaded_with_all_its_digits(plans):
    plan = Plan.open(plans.write({"alice": AGES, "bob": TOTAL}))
    release = plan.release()
    write_report(plan, plans.folder / "page.html")
    text = (plans.folder / "page.html").read_text()
    files = downloads(text)
    assert set(files) == {
        *("alice_ages.csv", "bob_all.csv", "fairness.csv", "interference.csv", "charges.csv"),
        *("measured.csv", "accuracy.csv"),
    }
    assert text.count("<table") == len(files) - 1  # A single number has a file, and no table.
    head, *rows = files["alice_ages.csv"]
    assert head == ["age", "n", "n_stderr", "n_low", "n_high"]
    assert rows == [[*map(str, row)] for row in release.rows("alice", "ages").with_errors().rows]
    assert files["fairness.csv"][0][:2] == ["analyst", "share"]
    assert [row[0] for row in files["fairness.csv"][1:]] == ["alice", "bob"]
    accuracy = release.certificate.analysts["alice"].statements[0]
    stated = ["ages", "alice", "n", "20", repr(accuracy.rmse), repr(accuracy.factor)]
    assert files["accuracy.csv"][1] == stated


def test_months_are_named_by_their_first_day_and_not_cut_off(plans):
    month = "date_trunc('month', DATE '2025-01-01' + 31 * (age // 10)::INTEGER)"
    months = f"SELECT {month} AS m, COUNT(*) AS n FROM visits GROUP BY m"
    plan = Plan.open(plans.write({"alice": f"-- name: months\n{months}"}))
    plan.release()
    write_report(plan, plans.folder / "page.html")
    text = (plans.folder / "page.html").read_text()
    assert ">2025-02-01</text>" in text
    assert "00:00:…" not in text
    assert downloads(text)["alice_months.csv"][1][0] == "2025-01-01 00:00:00"


def test_pairs_of_groups_that_repeat_are_a_table_and_no_heat_map(plans):
    repeated = "SELECT age // 5 AS a, age // 4 AS b, COUNT(*) AS n FROM visits GROUP BY age, a, b"
    plan = Plan.open(plans.write({"alice": f"-- name: pairs\n{repeated}"}))
    plan.release()
    write_report(plan, plans.folder / "page.html")
    text = (plans.folder / "page.html").read_text()
    assert 'class="heat"' not in text
    assert len(downloads(text)["alice_pairs.csv"]) == 1 + 20


def test_values_that_look_like_markup_are_written_as_they_are(pages):
    rows = downloads(pages.text("carol"))["carol_places.csv"]
    assert rows[0][0] == ALIAS
    assert VALUE in [row[0] for row in rows]


def test_a_table_that_is_too_large_for_a_link_says_how_to_get_it():
    rows = [["x" * 1000]] * (MAX_CSV_BYTES // 1000)
    assert "sqlmadp release PLAN --out FOLDER" in download("big", ["a"], rows)
    assert "href" in download("small", ["a"], rows[:-20])


REPORT = ("report", "--mechanism", "identity")


class TestCommand:
    def test_it_writes_a_page_whole_and_says_where(self, plans):
        path, out = plans.write({"alice": TOTAL}), plans.folder / "page.html"
        made = CliRunner().invoke(main, [*REPORT, str(path), "--out", str(out)])
        assert made.stdout.strip() == str(out)
        assert out.read_text().rstrip().endswith("</html>")
        assert not (plans.folder / "visits.ledger").exists()

    def test_an_unknown_analyst_and_a_place_that_cannot_be_written_to_are_refused(self, plans):
        path = plans.write({"alice": TOTAL})
        for options, part in (
            (["--analyst", "eve"], "there are alice"),
            (["--out", str(plans.folder / "gone" / "page.html")], "cannot write"),
        ):
            refused = CliRunner().invoke(main, [*REPORT, str(path), *options])
            assert refused.exit_code == 1
            assert part in refused.stderr

    def test_reading_the_table_is_not_needed(self, plans):
        path = plans.write({"alice": TOTAL})
        (plans.folder / "visits.parquet").unlink()
        out = plans.folder / "page.html"
        assert CliRunner().invoke(main, [*REPORT, str(path), "--out", str(out)]).exit_code == 0


def test_elements_escape_whatever_is_not_markup():
    made = element("p", "<b>", Markup("<i>"), title='"><script>', hidden=False, class_="x")
    assert made == '<p title="&quot;&gt;&lt;script&gt;" class="x">&lt;b&gt;<i></p>'


def test_every_mechanism_is_explained():
    assert all("rule" in vars(each) for each in MECHANISMS.values())
