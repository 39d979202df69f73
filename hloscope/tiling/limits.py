"""What a device has for the tiles of one block: one dated table."""

from __future__ import annotations

from typing import Final

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.lazy import dataclass

AS_OF: Final = "2026-08"
"""When the table was read."""
MAX_ELEMENTS: Final = 1 << 20
"""Elements of one padded tile that Triton takes.  Source: Triton `TRITON_MAX_TENSOR_NUMEL`."""
MAX_DOT_SIDE: Final = 256
"""The largest tile size of a product.  Source: XLA, Triton emitter constraints."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one block may use.

    Attributes:
        device: As the command takes it.
        shared: Bytes of shared memory of a block that asks for the most.
        registers: Of 4 bytes, for all threads of a block together.
    """

    device: str
    shared: int
    registers: int


_ROWS: Final = """
    a6000 | 101376 |  65536
    a100  | 166912 |  65536
    h100  | 232448 |  65536
    b200  | 232448 |  65536
    mi210 |  65536 | 131072
    mi350 | 163840 | 131072
    r9700 |  65536 |  98304
"""


def _limits(row: str) -> Limits:
    name, *numbers = [cell.strip() for cell in row.split("|")]
    return Limits(name, *map(int, numbers))


LIMITS: Final[dict[str, Limits]] = {
    limits.device: limits for limits in map(_limits, _ROWS.strip().splitlines())
}
"""Source: CUDA C++ Programming Guide, "Technical Specifications"; AMD's ISA: LDS, VGPRs."""
DEFAULT: Final = "h100"


def limits_of(device: str) -> Limits:
    """The limits of a device, in any case, with or without spaces and dashes.

    Raises:
        UnknownNameError: There is none of that name.

    >>> limits_of("MI210").shared
    65536
    """
    plain = device.lower().replace("-", "").replace(" ", "").replace("_", "")
    if plain not in LIMITS:
        near = did_you_mean(plain, LIMITS)
        raise UnknownNameError(f"no device `{device}`{near}; known: {', '.join(LIMITS)}")
    return LIMITS[plain]
