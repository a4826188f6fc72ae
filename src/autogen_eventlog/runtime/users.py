"""Which modules are the user's own: neither Python's nor installed ones, nor ours or AutoGen's."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Final

from autogen_eventlog.effects.finding import AUTOGEN

_NOT_USERS: Final = frozenset({"autogen_eventlog", *AUTOGEN})
_LIBRARIES: Final = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.lru_cache(maxsize=4096)
def is_users(module: str) -> bool:
    """Whether a loaded module is one of the user's."""
    if module.partition(".")[0] in _NOT_USERS or module not in sys.modules:
        return False
    origin = getattr(sys.modules[module], "__file__", None)
    if origin is None:  # built in, or the `__main__` of a console
        return module == "__main__"
    return "site-packages" not in Path(origin).parts and not any(root in Path(origin).parents for root in _LIBRARIES)
