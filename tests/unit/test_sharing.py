"""What a factory leads to, and how other objects take the place of what an instance has in common with others."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from autogen_core import AgentId, AgentInstantiationContext, RoutedAgent
from autogen_core.tools import FunctionTool

from autogen_eventlog.runtime import reach
from autogen_eventlog.runtime.reach import behind, led_to
from autogen_eventlog.runtime.replacing import Replacing, held_on


class Store:
    def __init__(self) -> None:
        self.items: list[str] = []


class Slotted:
    __slots__ = ("store",)

    def __init__(self, store: Any) -> None:
        self.store = store


class Pair(NamedTuple):
    name: str
    store: Any


@dataclass(frozen=True)
class Frozen:
    store: Any
    number: int = 1


class OwnDict(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        raise AssertionError("code of the agent's")


class Anything:
    """Stands for an instance: attributes as given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def bound(self) -> Any:
        return self


def accepts(*given: Any, **named: Any) -> None: ...


def replaced(instance: Any, before: Any) -> Any:
    now = type(before)()
    Replacing({id(before): now}).run(instance)
    assert not held_on(instance, {id(before): before})
    return now


def test_what_is_shared_is_replaced_wherever_it_hangs() -> None:
    store = Store()
    one = Anything(
        slotted=Slotted(store),
        pairs=deque([Pair("a", store)], maxlen=3),
        frozen={1: Frozen(store)},
        ordered=OrderedDict({"b": 1, store: 2, "c": [store]}),
        own=OwnDict(a=store),
        many={store, "x"},
        few=frozenset({(store, 1)}),
        partial=functools.partial(accepts, store, file=[store]),
        append=store.items.append,
    )
    pairs, ordered, parts = one.pairs, one.ordered, held_on(one, {id(store): store, id(store.items): store.items})
    assert parts == {"self.slotted.store": store, "self.append.__self__": store.items}
    now = replaced(one, store)
    assert one.pairs is pairs and one.pairs == deque([Pair("a", now)]) and pairs.maxlen == 3
    assert one.ordered is ordered and list(ordered.items()) == [("b", 1), (now, 2), ("c", [now])]
    assert one.frozen == {1: Frozen(now)} and one.own == {"a": now} and one.many == {now, "x"}
    assert one.few == frozenset({(now, 1)})
    assert one.partial.args == (now,) and one.partial.keywords == {"file": [now]}
    assert one.slotted.store is now


def test_what_hangs_together_stays_together() -> None:
    store = Store()
    helper = Anything(store=store, tasks=[])
    one = Anything(helper=helper, again=(helper, store), tasks=helper.tasks)
    helper.owner, helper.call = one, one.bound
    now = replaced(one, store)
    assert one.helper is helper is one.again[0] and helper.tasks is one.tasks
    assert helper.store is now is one.again[1]
    assert helper.owner is one is helper.call()


def test_closures_are_made_anew_with_what_they_close_over_and_those_of_the_factory_stay() -> None:
    store = Store()
    count = 0
    kept = [1]

    def add(text: str, *, to: Any = store) -> int:
        nonlocal count
        count += 1
        to.items.append(text)
        return count

    def down(number: int) -> Store:
        return down(number - 1) if number else store

    one = Anything(add=add, down=down, other=lambda: kept)
    other = one.other
    now = replaced(one, store)
    assert one.down(3) is now and down(3) is store
    assert (one.add("a"), one.add("b")) == (1, 2) and now.items == ["a", "b"] and store.items == []
    assert one.add.__qualname__ == add.__qualname__ and one.other is other


# -- what a factory leads to ----------------------------------------------------------------------------------------

OF_MODULE = Store()
OF_OTHERS: dict[str, Any] = {}


@functools.cache
def cached() -> Store:
    return Store()


class Part:
    kept: ClassVar[list[str]] = []

    def __init__(self, items: Any = OF_OTHERS) -> None:
        self.items = items
        self.words = Part.kept


class Base:
    def __init__(self) -> None:
        self.prepare()

    def prepare(self) -> None:
        self.store = OF_MODULE
        self.cached = cached()
        self.part = Part()
        self.number = [1]


class Maker:
    def __call__(self) -> Base:
        return Base()


def found_on(factory: Any) -> list[str]:
    made = factory()
    return list(held_on(made, behind(led_to(factory, cast("type[Any]", type(made))), but=made).held))


def test_what_constructors_name_is_found_and_what_they_make_is_not() -> None:
    assert found_on(Base) == ["self.store", "self.cached", "self.part.items", "self.part.words"]
    assert found_on(functools.partial(Base)) == found_on(lambda: Base()) == found_on(Maker()) == found_on(Base)


def test_an_instance_that_is_entered_somewhere_is_not_all_shared() -> None:
    made: list[Any] = []

    def factory() -> Any:
        made.append(Anything(items=[1], all=made))
        return made[-1]

    one = factory()
    assert list(held_on(one, behind(led_to(factory, Anything), but=one).held)) == ["self.all"]


def test_values_tools_and_runtimes_are_not_shared() -> None:
    nothing, tool = object(), FunctionTool(found_on, "x")
    values = ("a", 1.5, AgentId("a", "b"), nothing, frozenset({1}), Frozen(None), len, tool, reach, Store)
    assert found_on(lambda: Anything(values=values, more=[*values])) == []


class Plain(RoutedAgent):
    def __init__(self, store: Store, client: Any = None) -> None:
        super().__init__("plain")
        self.client = client


async def test_it_is_quick_and_bounded() -> None:
    store = Store()
    store.items = [[str(number)] for number in range(reach.LIMIT * 2)]  # type: ignore[misc]

    def factory() -> Plain:
        return Plain(store)

    with AgentInstantiationContext.populate_context((None, AgentId("plain", "k"))):  # type: ignore[arg-type]
        agent = factory()
    assert len(behind(led_to(factory, Plain), but=agent).held) <= reach.LIMIT
    store.items = []
    began = time.perf_counter()
    for _ in range(10):
        assert not held_on(agent, behind(led_to(factory, Plain), but=agent).held)
    assert (time.perf_counter() - began) / 10 < 0.02
