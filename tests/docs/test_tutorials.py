"""The README, tutorials and how-to pages are true: their commands are run, in order."""

from pathlib import Path

import pytest
from docs.running import BLOCK, Session, plain, shape
from quick import quick_first

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = sorted((ROOT / "docs").glob("tutorial_*.md"))
PAGES = [ROOT / "README.md", *TUTORIALS, ROOT / "docs" / "how_to.md"]


def test_there_is_a_tutorial_for_curators_and_one_for_analysts():
    assert [path.stem for path in TUTORIALS] == ["tutorial_analyst", "tutorial_curator"]


@pytest.mark.parametrize("path", quick_first(1, PAGES), ids=lambda path: path.stem)
def test_every_command_prints_what_the_page_shows(path, tmp_path):
    session = Session(tmp_path)
    blocks = BLOCK.findall(path.read_text())
    assert {kind for kind, _, _ in blocks} == {"run", "sample"}
    for kind, language, text in blocks:
        for command, shown, got in session.outputs(language, text):
            compared = plain if kind == "run" else shape
            assert compared(got) == compared(shown), command


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_block_that_looks_like_a_session_is_run(path):
    text = path.read_text()
    assert len(BLOCK.findall(text)) == text.count("```console") + text.count("```pycon")


def test_a_shape_keeps_words_and_loses_numbers():
    assert shape("ward  12  3.4\n 2024-01-02T03:04:05+00:00") == "ward 0 0\n TIME"
    assert shape("spent 1, left 1/2") == "spent 0, left 0/0"
    assert shape("refused") != shape("released")
