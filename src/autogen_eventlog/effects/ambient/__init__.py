"""What code reads of the process around it and is different each time: clocks, ids and random numbers.

Inside a delivery they are recorded live and answered from the log in replay. Gates stand, process-wide, in the place of
Python's functions for them: `clocks`, `dates`, `ids`, `randomness`. Outside of an agent's code they pass on to the real
ones. `callers` says whose code asks, `captured` reaches what was imported before the gates stood, `installation` puts all
of them in place, once.
"""

from autogen_eventlog.effects.ambient.installation import install, remove

__all__ = ["install", "remove"]
