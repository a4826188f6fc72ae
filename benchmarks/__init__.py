"""Benchmarks: how fast, how large and how flat, each beside what it is to be compared with.

    python benchmarks/run.py                     all of them, into docs/explanation/benchmarks.md
    python benchmarks/run.py --only replay       one
    python benchmarks/run.py --quick             small, on the screen only

- `throughput`  (a) the runtime, beside AutoGen's own and beside saving states by hand   `sides`, `commits`
- `appending`   (b) the writer, beside plain psycopg                                     `writer`
- `replaying`   (c) replay, beside the live rate of the same stream
- `recovering`  (d) time and memory of recovery, by length of stream                     `recovery_child`
- `auditing`    (e) questions to a large log                                             `large_log`
- `codec` has its own command.

`sizes`: how much; `rounds`: fair turns; `report`, `page`: what comes out; `machine`: where.
"""
