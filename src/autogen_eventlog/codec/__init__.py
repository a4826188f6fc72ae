"""Values to exact bytes and back: same values, same concrete types, nothing imported (G3, G10).

One noun a module. `codec` is the door; `registry` the allow-list, `annotations` and `names` what it goes by. `walk` and
`sharing` go through live values, `reading` through stored ones. `kinds` picks the plan of a class: `primitives`,
`scalars`, `times` and `containers` for built-in ones, `objects` (by `attributes` and `bases`), `enums`, `models` and
`foreign` for the others. `upcasting` brings old shapes to today's. `wire` is the stored form, which docs/reference/codec.md
describes for readers of the log.
"""

from autogen_eventlog.codec.codec import Codec, Encoded
from autogen_eventlog.codec.opaque import Opaque
from autogen_eventlog.codec.registry import TypeRegistry
from autogen_eventlog.codec.upcasting import renamed, upcaster

__all__ = ["Codec", "Encoded", "Opaque", "TypeRegistry", "renamed", "upcaster"]
