"""The pages of the documentation, and the code blocks in them.

A comment on the line before a block says more about it: `<!-- snippet: key=value key=value -->`.

- `session=NAME`   shares a database, a directory and a namespace with the other blocks of that name on the page
- `file=NAME`      the block is a file of the session's directory (and is not run by itself)
- `skip=REASON`    the block is not run (the reason goes to the end of the comment)

A `python` block is run where it stands (`await` is allowed), a `console` block line by line (`$ command`, then what it
printed; where nothing is shown, only that it works). A `text` block right behind a python block is what that printed.
What a page takes as given is made by the program of its name in preludes/, before each session of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("python", "console")
PRELUDES = Path(__file__).parent / "preludes"
NOT_RUN = {ROOT / "docs" / "reference" / "cli.md": "generated; tests/docs/test_cli_reference.py compares it"}

_FENCE = re.compile(r"^```(\w*)\s*$")
_SAID = re.compile(r"^<!-- snippet: (.*) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    """Of the opening fence, from 1 on."""
    number: int
    """Of the block on its page, from 1 on."""
    language: str
    text: str
    said: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def session(self) -> str:
        return self.said.get("session", f"block-{self.number}")


@dataclass(frozen=True, slots=True)
class Step:
    """A block that does something, and what it should print (None: that is not shown)."""

    block: Block
    expected: Block | None


def pages() -> list[Path]:
    """Every page that people read."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    said: dict[str, str] = {}
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence is not None:
            opened, inside = (number, fence[1]), []
        elif opened is not None and line == "```":
            found.append(Block(page, opened[0], len(found) + 1, opened[1], "\n".join(inside), said))
            opened, said = None, {}
        elif opened is not None:
            inside.append(line)
        elif line.strip():
            comment = _SAID.match(line)
            said = {} if comment is None else _options(comment[1])
    assert opened is None, f"{page}: the block of line {opened} is never closed"
    return found


def sessions(page: Path) -> dict[str, list[Step]]:
    """What is to be run, by session."""
    found: dict[str, list[Step]] = {}
    every = blocks(page)
    for index, block in enumerate(every):
        if block.language not in RUN or "skip" in block.said:
            continue
        after = every[index + 1] if index + 1 < len(every) else None
        expected = after if after is not None and after.language == "text" and _adjoin(block, after) else None
        found.setdefault(block.session, []).append(Step(block, expected))
    return found


def prelude(page: Path) -> Block | None:
    """What the page takes as given, as code: named in a comment `<!-- given: NAME -->`, or by the page's own name."""
    named = re.search(r"^<!-- given: (\w+) -->$", page.read_text("utf-8"), re.MULTILINE)
    program = PRELUDES / f"{named[1] if named else page.stem.replace('-', '_')}.py"
    assert program.exists() or named is None, f"{page}: there is no {program}"
    return Block(program, 0, 0, "python", program.read_text("utf-8")) if program.exists() else None


def every_session() -> Iterator[tuple[Path, str]]:
    for page in pages():
        if page in NOT_RUN:
            continue
        for name in sessions(page):
            yield page, name


def _adjoin(block: Block, after: Block) -> bool:
    between = after.line - block.line - len(block.text.splitlines()) - 2
    return between <= 1


def _options(text: str) -> dict[str, str]:
    if text.startswith("skip="):
        return {"skip": text.removeprefix("skip=")}
    return dict(part.split("=", 1) for part in text.split())
