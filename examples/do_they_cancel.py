"""Do a transpose and the reshapes around it cancel?  Compose their maps and simplify.

python examples/do_they_cancel.py
"""

from __future__ import annotations

from hloscope import IndexingMap

SPLIT = IndexingMap.parse("(d0) -> (d0 / 64, d0 mod 64), domain: d0 in [0, 511]")
"""A reshape from [512] seen from its result: element d0 of the result is this element of [8,64]."""
SWAP = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 63]")
BACK = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 63], d1 in [0, 7]")
JOIN = IndexingMap.parse("(d0, d1) -> (d0 * 64 + d1), domain: d0 in [0, 7], d1 in [0, 63]")


def main() -> None:
    """Print the composed maps: the first is the identity, the second moves data."""
    cancels = SPLIT.compose(SWAP).compose(BACK).compose(JOIN)
    print("composed:  ", cancels)
    print("simplified:", cancels.simplify())
    moves = SPLIT.compose(SWAP).compose(
        IndexingMap.parse("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 63], d1 in [0, 7]")
    )
    print("a transpose alone moves data:", moves.simplify())


if __name__ == "__main__":
    main()
