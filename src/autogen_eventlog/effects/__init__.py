"""Effects: what an agent asks of models, tools, workbenches, code executors and memories, recorded without its doing.

`capture` puts stand-ins in the place of an instance's boundaries. `finding` says where they hang, `standins` makes them,
`boundaries` says which of their methods ask what; `asking` is how one is asked, recorded and, in replay, answered.
"""

from autogen_eventlog.effects.capture import boundaries_of, capture
from autogen_eventlog.effects.policy import Decision, UnknownEffects

__all__ = ["Decision", "UnknownEffects", "boundaries_of", "capture"]
