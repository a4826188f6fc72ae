"""The results in the documentation: tables between markers, the text round them as it is."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import described
from benchmarks.report import Aim, Report, Table, aims_table, as_markdown, report_markdown

Results = dict[str, dict[str, Any]]
"""By benchmark: `Report.as_json`, with the machine and how long it took."""

_AIMS = "aims"


def filled(text: str, results: Results) -> str:
    """The page with the results that there are.

    Raises:
        ValueError: The page has no place for one.
    """
    for name, result in results.items():
        text = _between(text, name, f"{report_markdown(_report(result))}\n\n{described(result['machine'])}")
    aims = [aim for result in results.values() for aim in _report(result).aims]
    return _between(text, _AIMS, as_markdown(aims_table(aims)))


def _between(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"the page has no {begin} … {end}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def _report(result: dict[str, Any]) -> Report:
    aims = [Aim(one["what"], one["measured"], one["bound"], one["at_most"]) for one in result["aims"]]
    tables = [Table(one["title"], one["columns"], one["rows"]) for one in result["tables"]]
    return Report(tables, aims)
