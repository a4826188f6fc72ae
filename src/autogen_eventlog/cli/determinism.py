"""What `eventlog determinism` does, and how it shows it."""

from __future__ import annotations

from dataclasses import asdict

import typer

from autogen_eventlog.checking.determinism import ClassReport, Finding, Verdict
from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.checking import DIFFERS, Asked, agents_of
from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.opening import looking
from autogen_eventlog.cli.output import Column, Output
from autogen_eventlog.cli.restoring import load_register
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.waiting import Bar

_CLASSES = (
    Column("class", 50, "bold"),
    Column("verdict"),
    Column("agents"),
    Column("deliveries"),
    Column("effects", 50),
    Column("readings", 50),
)
_SAID = {
    Verdict.REPLAY_SAFE: "replay-safe",
    Verdict.SAFE_WITH_EFFECTS: "safe with effects recorded",
    Verdict.NOT_SAFE: "not safe",
    Verdict.UNKNOWN: "unknown",
}


async def determinism(settings: Settings, asked: Asked, app: str) -> None:
    """Judge and show; exit code 1 if a class is not safe, or an agent could not be judged."""
    output, register = Output(settings), load_register(app)
    async with looking(settings) as log:
        agents = await agents_of(log.reader, asked)
        async with registered(log, register) as runtime:
            with Bar(settings, len(agents)) as bar:
                reports = await runtime.determinism(agents, on_progress=bar.show)
    _show(output, reports)
    if any(report.verdict in (Verdict.NOT_SAFE, Verdict.UNKNOWN) or report.undecided for report in reports):
        raise typer.Exit(DIFFERS)


def _show(output: Output, reports: list[ClassReport]) -> None:
    if output.for_programs:
        for report in reports:
            output.line(_form(report))
        return
    output.table(_CLASSES, [_row(report) for report in reports])
    for report in reports:
        for title, findings in (("not safe", report.unsafe), ("not judged", report.undecided)):
            for finding in findings:
                output.text("")
                output.block(f"{report.agent_class}: {title}", _entries(finding))


def _form(report: ClassReport) -> Form:
    return asdict(report) | {"verdict": report.verdict.value}


def _row(report: ClassReport) -> list[str]:
    return [
        report.agent_class,
        _SAID[report.verdict],
        str(report.agents),
        str(report.deliveries),
        _counts(report.effects),
        _counts(report.readings),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in counts.items())


def _entries(finding: Finding) -> list[tuple[str, str]]:
    named = [("what", finding.what), ("where", finding.place), ("agent", finding.agent), ("to do", finding.remedy)]
    return [(name, value) for name, value in named if value]
