"""`python -m autogen_eventlog` is the command `eventlog`."""

from autogen_eventlog.cli import main

main()
