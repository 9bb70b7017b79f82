"""The documents: links that lead somewhere, and a reference that is made from the code."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SKIPPED = {".venv", "node_modules", "build", "dist", ".git", ".hypothesis", ".pytest_cache"}
DOCUMENTS = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts)
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text):
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def links(path):
    return [first or second for first, second in LINK.findall(without_code(path.read_text()))]


def anchors(path):
    """Return the anchors of a document's headings, as they are made on the web."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"\s", "-", heading.strip()) for heading in plain}


def test_there_are_documents_to_look_at():
    names = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS}
    assert {"README.md", "CONTRIBUTING.md", "docs/privacy.md", "examples/web/README.md"} <= names


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path):
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[^\s]*)?", link), link
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the project"
        if anchor:
            assert anchor in anchors(target), f"{link} has no such heading"


def test_every_page_of_the_documents_is_linked_from_another():
    pages = {path for path in DOCUMENTS if path.parent == ROOT / "docs"} - {
        ROOT / "docs" / "README.md"  # The list of them all.
    }
    linked = {
        (path.parent / link.partition("#")[0]).resolve()
        for path in DOCUMENTS
        for link in links(path)
        if not re.match(r"[a-z]+:", link)
    }
    assert pages <= linked


def test_every_benchmark_is_described_in_the_documents():
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    scripts = [path.name for path in (ROOT / "benchmarks").glob("*.py")]
    assert [name for name in scripts if f"`{name}`" not in page] == []


def test_the_reference_is_what_the_code_says():
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    said = (ROOT / "docs" / "reference.md").read_text()
    assert made["reference"]() == said, "run 'python docs/make_reference.py'"
