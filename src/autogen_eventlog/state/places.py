"""Places in a stored state, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from autogen_eventlog.state.form import (
    ATTRIBUTES,
    DATA,
    ELEMENTS,
    ITEMS,
    KEYS,
    SHOWN,
    TAG,
    VALUES,
    WEAK,
    Entry,
    Form,
    dumps,
    number_of,
)
from autogen_eventlog.state.parts import attribute_step

_LONGEST = 60


def steps(entry: Entry) -> Iterator[tuple[str, Form]]:
    """Every part of an entry, with where in it the part stands: `.name`, `[3]`, `['key']`."""
    for name, form in entry.get(ATTRIBUTES, {}).items():
        yield attribute_step(name), form
    for at, form in enumerate(entry.get(ITEMS, ())):
        yield f"[{at}]", form
    for key, form in zip(entry.get(KEYS, ()), entry.get(VALUES, ()), strict=True):
        yield f"[{key_text(key)}]", form
    for letter, text in ((KEYS, " (a key)"), (ELEMENTS, " (an element)"), (WEAK, " (weakly held)")):
        for form in entry.get(letter, ()):
            yield text, form


def key_text(form: Form) -> str:
    """A key, as code says it where it is plain."""
    if type(form) is list:
        return "an object"
    return shortened(dumps(cast(Form, form)) if isinstance(form, dict) else repr(form))


def shortened(text: str, longest: int = _LONGEST) -> str:
    """A text that a line has room for."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def path_to(entries: list[Entry], root: int, number: int) -> str:
    """The shortest path to an object: `self._pending['a'].task`."""
    reached: dict[int, tuple[int, str]] = {root: (root, "self")}
    pending = [root]
    for current in pending:
        if number in reached:
            break
        for step, form in steps(entries[current]):
            following = number_of(form)
            if following is not None and following not in reached:
                reached[following] = (current, step)
                pending.append(following)
    return _joined(reached, root, number)


def _joined(reached: dict[int, tuple[int, str]], root: int, number: int) -> str:
    found: list[str] = []
    while number != root and number in reached:
        number, step = reached[number]
        found.append(step)
    return "self" + "".join(reversed(found))


def words(entries: list[Entry], form: Form) -> str:
    """What a form stands for, in a few words."""
    number = number_of(form)
    if number is not None:
        return entry_words(entries[number])
    if isinstance(form, dict):
        return shortened(_leaf(cast("dict[str, Any]", form)), 200)
    return shortened(repr(form), 200)


def _leaf(form: dict[str, Any]) -> str:
    rest = {key: value for key, value in form.items() if key != TAG}
    return f"{form.get(TAG)} {next(iter(rest.values())) if len(rest) == 1 else dumps(rest)}"


def entry_words(entry: Entry) -> str:
    """An object, by its kind and size."""
    kind = str(entry[TAG])
    if kind == SHOWN:
        return str(entry.get(DATA))
    sizes = ((ITEMS, "items"), (KEYS, "keys"), (ELEMENTS, "elements"))
    told = [f"{len(entry[letter])} {what}" for letter, what in sizes if letter in entry]
    return f"{kind} of {', '.join(told)}" if told else f"empty {kind}" if ":" not in kind else kind
