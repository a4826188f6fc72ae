"""One half of a life: `capture` writes a state, `load` reads it in another process and says what became of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from autogen_core import AgentId, TopicId

from autogen_eventlog.codec import Codec
from autogen_eventlog.state import capture, load
from tests.unit.state_agents import Colour, Derived, Holder, Item, Model, Node, Point


class Living(Holder):
    """Holds what depends on hashes wherever it can."""

    def __init__(self) -> None:
        super().__init__(names=set[str](), table=defaultdict[str, Any](lambda: Counter()), lock=asyncio.Lock())
        self.keep: Any = None

    def live(self) -> None:
        words = [f"word {number}" for number in range(40)]
        nodes = [Node(word) for word in words]
        for node, following in pairwise(nodes):
            node.following = following
        values = vars(self)
        values["names"].update(words)
        values["table"]["a"].update(words)
        values["numbers"] = {8 * number for number in range(40)}
        values["mixed"] = {
            Point(1, "a"),
            Colour.RED,
            "x",
            (1, frozenset(words)),
            AgentId("a", "b"),
            TopicId("t", "s"),
            None,
        }
        values["nodes"] = set(nodes)
        values["apart"] = {Node(word) for word in words}
        values["both"] = [{nodes[3], nodes[5]}, frozenset(nodes[7:9]), {frozenset({Node("n"), "m"}): words}]
        values["model"] = Model(name="n", zeta=words, alpha=set(words))  # type: ignore[call-arg]
        values["item"] = Item("i", tags=words)
        values["derived"] = Derived({"s": {"t", "u"}})
        count = {"seen": 0}

        def tell(word: str = "w") -> tuple[str, int, bool]:
            count["seen"] += 1
            return word, count["seen"], word in {"w", "v", "u"}

        tell()
        self.keep = tell


def main(what: str, path: str) -> None:
    made = Living()
    if what == "capture":
        made.live()
        captured = capture(made, Codec())
        Path(path).write_bytes(captured.data)
        print(json.dumps({"digest": captured.digest}))
        return
    load(Path(path).read_bytes(), into=made, codec=Codec())
    values: Any = made
    told = [values.keep(), len(values.names), values.table["new"]["x"], values.names == set(values.item.tags)]
    values.keep.__closure__[0].cell_contents["seen"] -= 1
    del values.table["new"]
    numbers = values.numbers == {8 * number for number in range(40)}
    print(json.dumps({"digest": capture(made, Codec()).digest, "told": told, "numbers": numbers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
