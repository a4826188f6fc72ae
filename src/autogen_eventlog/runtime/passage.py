"""Counts what is on its way from one place to the next, for whoever must wait until all of it has arrived."""

from __future__ import annotations

import asyncio


class Passage:
    """A stretch of the way; `with passage:` is one traveller on it.

    Whoever waits in `cleared` resumes a turn of the loop after the last traveller has left, so what the traveller then
    does without waiting is done before.
    """

    def __init__(self) -> None:
        self._travellers = 0
        self._cleared = asyncio.Event()

    def __enter__(self) -> None:
        self._travellers += 1
        self._cleared.clear()

    def __exit__(self, *exc_info: object) -> None:
        self._travellers -= 1
        if not self._travellers:
            self._cleared.set()

    @property
    def is_clear(self) -> bool:
        return not self._travellers

    async def cleared(self) -> None:
        """Return once nobody is on the way."""
        while self._travellers:
            await self._cleared.wait()
