"""The report as text: what it says, to whom, and that nothing in it is taken for markup."""

import re
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from click.testing import CliRunner
from report.hostile import ALIAS, ANALYST, COMMENT, VALUE
from sqlmadp.report.buckets import pools
from sqlmadp.report.words import RULES

from sqlmadp.cli import main
from sqlmadp.plan import MECHANISMS, Plan
from sqlmadp.report import write_report
from sqlmadp.report.content import gather
from sqlmadp.report.markup import Markup, element

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
    def test_stands_alone(self, pages, name):
        text = pages.text(name)
        outline = Outline(text)
        assert not {"link", "img", "iframe", "object", "embed"} & set(outline.tags)
        links = [value for key, value in outline.attributes if key in {"src", "href"}]
        assert all(link.startswith("#") for link in links)
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
        assert all("aria-labelledby" in chart for chart in charts)
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids))
        for names in re.findall(r'aria-labelledby="([^"]+)"', text):
            assert set(names.split()) <= set(ids)


def words(text):
    return re.sub(r"\s+", " ", " ".join(Outline(text).words))


def test_a_preview_says_that_nothing_is_spent_and_holds_no_rows(pages):
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
        "Three analysts ask 7 questions",
        "spent epsilon 1. Of the whole budget of 3, 1 is spent and 2 is left",
        "adding or removing one record changes the probability of any outcome by at most the "
        "factor 2.72",
        "by at most 20.1",
        "Nobody does worse than alone with their own share",
        "What is not promised",
        "bob is better off together with the others than alone",
    ):
        assert part in said
    assert "<dt>bobs_count</dt>" in pages.text("released")


def test_an_analysts_page_has_nothing_of_the_others(pages):
    text = pages.text("carol")
    for part in ("bob", "the_secret_of_bob", "bobs_count", "Neil"):
        assert part not in words(text)
    assert "carol asks 3 questions" in words(text)
    own = pages.text("bob")
    for part in ("carol", "Neil", "places", "of age", "right-to-left"):
        assert part not in words(own)
    assert "bobs_count" in own


def test_what_a_page_is_made_from_has_nothing_of_the_others_either(plans):
    plan = Plan.open(plans.write({"alice": AGES, "bob": TOTAL}))
    plan.release()
    content = gather(plan, "bob", None, mechanisms=["identity"])
    assert [member.name for member in content.members] == ["bob"]
    assert [charge.analysts for charge in content.charges] == [()]
    assert content.interference == {}
    assert {name for bucket in content.buckets for name in bucket.parts} <= {"bob", None}


def test_a_violation_is_said_in_the_certificate_and_marked_in_the_chart(plans, tmp_path):
    path = plans.write({"alice": AGES, "bob": AGES, "carol": TOTAL}, mechanism="utilitarian")
    made = CliRunner().invoke(main, ["report", str(path), "--out", str(tmp_path / "page.html")])
    assert made.exit_code == 0, made.output
    said = words((tmp_path / "page.html").read_text())
    assert "Violated: carol would do better alone" in said
    assert "carol is worse off" in said


def test_the_parts_of_a_waterfilled_release_are_the_shares(plans):
    shares = {"alice": "1/2", "bob": "1/3", "carol": "1/6"}
    path = plans.write({"alice": AGES, "bob": AGES, "carol": TOTAL}, shares=shares)
    content = gather(Plan.open(path), None, None, mechanisms=["identity"])
    sums = {name: sum(bucket.parts.get(name, 0) for bucket in content.buckets) for name in shares}
    assert sums == pytest.approx({name: float(Fraction(share)) for name, share in shares.items()})
    together = {bucket.name: set(bucket.parts) for bucket in content.buckets}
    assert together["age 7"] == {"alice", "bob"}
    assert together["all records"] == {"carol"}
    assert [pool.questions for pool in pools(content.buckets)] == [21, 1]


def test_a_plan_that_adds_an_analyst_costs_only_what_the_newcomer_brings(plans, tmp_path):
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


def test_what_another_mechanism_chooses_for_all_is_nobodys_own(plans):
    path = plans.write({"alice": AGES, "bob": TOTAL}, mechanism="identity")
    content = gather(Plan.open(path), None, None, mechanisms=["identity"])
    assert all(set(bucket.parts) == {None} for bucket in content.buckets)


def test_a_release_of_very_many_questions_is_not_looked_at_one_by_one(plans, monkeypatch):
    monkeypatch.setattr("sqlmadp.report.buckets.MOST_QUESTIONS", 3)
    path = plans.write({"alice": AGES})
    content = gather(Plan.open(path), None, None, mechanisms=["identity"])
    assert content.buckets is None


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
    assert set(RULES) == set(MECHANISMS)
