"""The runtimes: AutoGen's own, with recording round every agent."""

from autogen_eventlog.runtime.compatibility import check_autogen

check_autogen()
