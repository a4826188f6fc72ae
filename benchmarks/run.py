"""Runs the benchmarks and writes their results into the documentation.

python benchmarks/run.py                    all, on an embedded Postgres in a temporary directory
python benchmarks/run.py --only replaying   throughput, appending, replaying, recovering, capturing, auditing or distributing
python benchmarks/run.py --dsn DSN          on a database of yours (in schemas eventlog_benchmark…)
python benchmarks/run.py --quick            small, to see that it works; nothing is written
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.machine import look
from benchmarks.page import Results, filled
from benchmarks.report import Report, report_markdown
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.writer import server

NAMES = ("throughput", "appending", "replaying", "recovering", "capturing", "auditing", "distributing")
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results.json"


def run_one(name: str, dsn: str, sizes: Sizes) -> Report:
    """Run one benchmark in this process."""
    return import_module(f"benchmarks.{name}").run(dsn, sizes)


def measured(name: str, dsn: str, sizes: Sizes) -> dict[str, Any]:
    """Run one benchmark in a process of its own: none inherits another's memory."""
    began = time.perf_counter()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        report = process.submit(run_one, name, dsn, sizes).result()
    seconds = round(time.perf_counter() - began)
    print(f"\n## {name} ({seconds} s)\n\n{report_markdown(report)}", flush=True)
    return report.as_json() | {"seconds": seconds}


def write(results: Results) -> None:
    """Results of benchmarks that were not run now stay."""
    kept: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    merged = {name: (kept | results)[name] for name in NAMES if name in kept | results}
    RESULTS.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(filled(PAGE.read_text(), merged))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=NAMES, action="append", help="may be given more than once")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dsn")
    given = parser.parse_args()
    sizes = QUICK if given.quick else FULL
    with server(given.dsn) as dsn:
        machine = look(dsn).as_json()
        results = {name: measured(name, dsn, sizes) | {"machine": machine} for name in given.only or NAMES}
    if not given.quick:
        write(results)


if __name__ == "__main__":
    main()
