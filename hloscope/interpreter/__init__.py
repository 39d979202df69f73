"""The reference interpreter: every op on numpy arrays.

Names are loaded when they are first used: other rooms start without the interpreter.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hloscope.interpreter.calling import call, call_grid

__all__ = ["call", "call_grid"]

_HOME_OF: Final = {"call": "calling", "call_grid": "calling"}


def __getattr__(name: str) -> Any:
    """Load a name from the module it lives in."""
    if name not in _HOME_OF:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value
