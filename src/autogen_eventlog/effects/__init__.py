"""Effects: what an agent asks of models, tools, workbenches, code executors and memories, recorded without its doing.

`capture` puts stand-ins in the place of an instance's boundaries. `finding` says where they hang, `standins` makes them,
`boundaries` says which of their methods ask what; `asking` is how one is asked, recorded and, in replay, answered.
`own` are effects that people name. `ambient` is what code reads without asking anybody: clocks, ids and random numbers.
`hermetic` refuses in replay what is none of these, of the calls that `watched` lists.
"""

from autogen_eventlog.effects.capture import boundaries_of, capture
from autogen_eventlog.effects.own import effect, effect_of
from autogen_eventlog.effects.policy import Answer, Ask, Decision, UnknownEffect, UnknownEffects

__all__ = [
    "Answer",
    "Ask",
    "Decision",
    "UnknownEffect",
    "UnknownEffects",
    "boundaries_of",
    "capture",
    "effect",
    "effect_of",
]
