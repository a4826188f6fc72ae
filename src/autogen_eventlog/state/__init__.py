"""An agent's whole state as typed data: captured without its cooperation, compared, loaded into a fresh instance.

G3, G10, G11. `capture`, `loading` and `differences` are the doors. `walk` goes over the object graph; `kinds` says for each
class how its objects are taken apart and put together (`kind`, `parts`): plain ones (`objects`, `attributes`), code
(`callables`), what waits (`idle`), the standard library's (`standard`), numpy's (`arrays`). `layout` tells what Python does not
see, `constants` what is told by its identity alone, `orders` and `seedless` keep the order of sets. `form` is the stored form,
`leaves` reads its values. `shown` is the rule for what stored names may stand for, `matching` finds what a fresh instance has
already, `places` names places.
"""

from autogen_eventlog.state.capture import CapturedState, capture
from autogen_eventlog.state.differences import StateDifference, difference
from autogen_eventlog.state.loading import load

__all__ = ["CapturedState", "StateDifference", "capture", "difference", "load"]
