"""Every relative link leads somewhere, and every page can be reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import ROOT, pages

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:tests|src|sql|docs|examples|benchmarks)/[\w/-]+(?:\.py|\.sql|\.md)?)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [link for link in _LINK.findall(text) if not link.startswith(("http:", "https:", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    headings = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(page.read_text("utf-8")))
    return {heading.strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    pending = [ROOT / "docs" / "index.md"]
    while pending:
        page = pending.pop()
        if page not in reached:
            reached.add(page)
            targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
            pending += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert {page for page in pages() if "docs" in page.parts} <= reached


def test_every_file_that_a_page_names_is_there() -> None:
    missing: list[str] = []
    for page in pages():
        named = _FILE.findall(page.read_text("utf-8"))
        missing += [f"{page.name}: {name}" for name in named if not (ROOT / name).exists()]
    assert not missing
