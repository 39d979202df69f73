"""The reference interpreter: every op on numpy arrays.

Importing it registers the evaluations of all families.
"""

from hloscope.interpreter import (
    assertions,
    control,
    custom_call,
    observing,
)

__all__ = [
    "assertions",
    "control",
    "custom_call",
    "observing",
]
