"""The rules, by name."""

from __future__ import annotations

from typing import Final

from hloscope.checks.collectives import COLLECTIVES
from hloscope.checks.kernels import FUSED, PRECISION, UTILISATION
from hloscope.checks.loops import TRIP_COUNTS
from hloscope.checks.movement import CONSTANTS, COPIES
from hloscope.checks.padding import PADDING
from hloscope.checks.peak import MEMORY
from hloscope.checks.rule import Rule
from hloscope.checks.values import DONATION, DYNAMIC_SIZES, TYPES

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        COPIES, COLLECTIVES, UTILISATION, PRECISION, FUSED, TYPES, DONATION, DYNAMIC_SIZES,
        CONSTANTS, PADDING, TRIP_COUNTS, MEMORY,
    )
}  # fmt: skip
