"""What a check found, for people and for programs, and in the words of a failed test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from autogen_eventlog.checking import AgentCheck, CheckOutcome, CheckReport, FieldDifference
from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.output import Column, Output
from autogen_eventlog.errors import CodeComparison, Divergence

_CHECKS = (
    Column("agent", 40, "bold"),
    Column("version"),
    Column("events"),
    Column("replayed"),
    Column("outcome"),
    Column("code"),
    Column("first difference", 80, least=20),
)
_SHOWN = 20
"""Fields that people are shown of one divergence, at most."""

_LONGEST = 400
_OUTCOMES = {
    CheckOutcome.SAME: "same",
    CheckOutcome.DIVERGES: "diverges",
    CheckOutcome.OTHER_STATE: "other state",
    CheckOutcome.NOT_RESTORABLE: "not restorable",
    CheckOutcome.UNKNOWN_TYPE: "unknown type",
    CheckOutcome.TYPE_MISSING: "type missing",
}


def show(output: Output, report: CheckReport) -> None:
    """All of it: a table, then each agent that is not the same; for programs one object an agent."""
    if output.for_programs:
        for check in report.agents:
            output.line(check_form(check))
        return
    output.table(_CHECKS, [_row(check) for check in report.agents])
    for check in report.agents:
        if not check.same:
            output.text("")
            output.block(_title(check), list(entries(check)))
    output.hint(summary(report))


def summary(report: CheckReport) -> str:
    """How many of each."""
    counts = [f"{report.count(outcome)} {said}" for outcome, said in _OUTCOMES.items() if report.count(outcome)]
    number = len(report.agents)
    return f"{number} agent{'' if number == 1 else 's'}: {', '.join(counts) or 'none'}."


def text(check: AgentCheck) -> str:
    """One agent that is not the same, as plain text."""
    lines = [_title(check)]
    for name, value in entries(check):
        first, *others = value.splitlines() or [""]
        lines += [f"  {name + ':':14} {first}", *(f"{'':17}{line}" for line in others)]
    return "\n".join(lines)


def entries(check: AgentCheck) -> Iterator[tuple[str, str]]:
    """What is to be said of one agent that is not the same."""
    for divergence in check.divergences:
        yield from _divergence(divergence)
    if check.state:
        yield "state", f"at version {check.state_version}\n{_listed(check.state)}"
    if check.problem:
        yield "problem", check.problem
        yield "what to do", check.remedy
    if check.code is not None:
        yield "code", _code(check.code)


def check_form(check: AgentCheck) -> Form:
    """One agent, for programs."""
    return {
        "agent": check.agent,
        "outcome": check.outcome.value,
        "version": check.version,
        "events": check.events,
        "class": check.agent_class,
        "exact": check.exact,
        "divergences": [_divergence_form(one) for one in check.divergences],
        "state_version": check.state_version,
        "state": [_difference_form(one) for one in check.state],
        "code": _code_form(check.code),
        "problem": check.problem or None,
        "remedy": check.remedy or None,
        "source": check.source,
    }


# -- for people ---------------------------------------------------------------------------------------------------


def _title(check: AgentCheck) -> str:
    where = "" if check.source is None else f" ({check.source})"
    return f"{check.agent}{where}: {_OUTCOMES[check.outcome]}"


def _row(check: AgentCheck) -> list[str]:
    replayed = {True: "exactly", False: "by order", None: ""}[check.exact]
    code = "" if check.code is None else ("changed" if check.code.changed else "same")
    events = str(check.events) if check.events else ""
    return [check.agent, str(check.version), events, replayed, _OUTCOMES[check.outcome], code, _first(check)]


def _first(check: AgentCheck) -> str:
    if check.divergences:
        first = check.divergences[0]
        fields = ", ".join(one.path for one in first.differences[:3])
        return f"version {first.version}: {fields or first.produced}"
    if check.state:
        return f"version {check.state_version}: {check.state[0].path}"
    return check.problem


def _divergence(divergence: Divergence) -> Iterator[tuple[str, str]]:
    delivery = "" if divergence.delivery is None else f", delivery {divergence.delivery}"
    where = f"at version {divergence.version}{delivery}"
    if divergence.differences:
        yield "diverges", f"{where}\n{_listed(divergence.differences)}"
    else:
        yield "diverges", f"{where}\nrecorded  {divergence.recorded}\nnow       {divergence.produced}"
    yield "likely cause", divergence.likely_cause


def _listed(differences: tuple[FieldDifference, ...]) -> str:
    lines: list[str] = []
    for one in differences[:_SHOWN]:
        lines += [one.path, f"  recorded  {_value(one.recorded)}", f"  now       {_value(one.produced)}"]
    if len(differences) > _SHOWN:
        lines.append(f"and {len(differences) - _SHOWN} more (--json shows all)")
    return "\n".join(lines)


def _value(text: str | None) -> str:
    if text is None:
        return "(none)"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _code(code: CodeComparison) -> str:
    if not code.changed:
        return "is what it was when this was recorded"
    where = "" if code.version is None else f" (version {code.version})"
    return f"has changed since this was recorded{where}: {code.recorded}, now {code.now}"


# -- for programs -------------------------------------------------------------------------------------------------


def _divergence_form(divergence: Divergence) -> Form:
    return {
        "version": divergence.version,
        "delivery": divergence.delivery,
        "recorded": divergence.recorded,
        "produced": divergence.produced,
        "differences": [_difference_form(one) for one in divergence.differences],
        "likely_cause": divergence.likely_cause,
        "code": _code_form(divergence.code),
    }


def _difference_form(difference: FieldDifference) -> Form:
    """A side that is not there has no key."""
    form: Form = {"path": difference.path}
    if difference.recorded is not None:
        form["recorded"] = _parsed(difference.recorded)
    if difference.produced is not None:
        form["produced"] = _parsed(difference.produced)
    return form


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _code_form(code: CodeComparison | None) -> Form | None:
    if code is None:
        return None
    return {"version": code.version, "recorded": code.recorded, "now": code.now, "changed": code.changed}
