"""Every example in the documentation runs, and prints what the page says.

`EVENTLOG_DOCS_UPDATE=1 python -m pytest tests/docs/test_snippets.py` writes what they print into the pages.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .pages import NOT_RUN, ROOT, Block, Step, blocks, every_session, pages, prelude, sessions
from .running import Session, commands, comparable

UPDATE = bool(os.environ.get("EVENTLOG_DOCS_UPDATE"))
LANGUAGES = {"python", "console", "text", "mermaid", "sql", "bash", "toml", "json"}


@pytest.mark.parametrize(
    ("page", "name"), [pytest.param(*one, id=f"{one[0].name}:{one[1]}") for one in every_session()]
)
async def test_a_snippet_runs_and_prints_what_the_page_says(page: Path, name: str, dsn: str, tmp_path: Path) -> None:
    session = Session(tmp_path, dsn)
    differing: list[str] = []
    given = prelude(page)
    try:
        if given is not None:
            await session.run(given)
        for step in sessions(page)[name]:
            printed = await session.run(step.block)
            if not says(step, printed):
                differing.append(f"{page.name}:{step.block.line} prints:\n{printed}")
    finally:
        session.close()
    assert not differing, "\n".join(differing)


def says(step: Step, printed: str) -> bool:
    """Whether the page shows what was printed; with EVENTLOG_DOCS_UPDATE it is made to."""
    shown = step.block if step.block.language == "console" else step.expected
    if shown is None or shows_nothing(shown) or comparable(shown.text) == comparable(printed):
        return True
    if UPDATE:
        rewrite(shown, printed)
    return UPDATE


def shows_nothing(block: Block) -> bool:
    """Commands alone: the page does not say what they print."""
    if block.language != "console":
        return False
    return [line for command in commands(block.text) for line in f"$ {command}".splitlines()] == block.text.splitlines()


def rewrite(shown: Block, text: str) -> None:
    lines = shown.page.read_text("utf-8").splitlines()
    start = next(block.line for block in blocks(shown.page) if block.text == shown.text)
    end = start + len(shown.text.splitlines()) if shown.text else start
    lines[start:end] = text.splitlines()
    shown.page.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_says_its_language(page: Path) -> None:
    unnamed = [block.line for block in blocks(page) if block.language not in LANGUAGES]
    assert not unnamed


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_skipped_block_says_why(page: Path) -> None:
    assert all(block.said["skip"] for block in blocks(page) if "skip" in block.said)


def test_pages_that_are_not_run_are_there() -> None:
    assert all(page.exists() for page in NOT_RUN)
