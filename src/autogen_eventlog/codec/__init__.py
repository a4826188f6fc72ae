"""Values to exact bytes and back: same values, same concrete types, nothing imported (G3, G10).

One noun a module: `codec` is the door; `registry` the allow-list, `annotations` and `names` what it goes by; `walk` and
`sharing` go through live values, `reading` through stored ones; `plans` picks for each class one of `primitives`, `scalars`,
`times`, `containers`, `objects`, `enums`, `models` and `foreign`; `wire` is the stored form. docs/reference/codec.md
describes it for readers of the log.
"""

from autogen_eventlog.codec.codec import Codec, Encoded
from autogen_eventlog.codec.opaque import Opaque
from autogen_eventlog.codec.registry import TypeRegistry

__all__ = ["Codec", "Encoded", "Opaque", "TypeRegistry"]
