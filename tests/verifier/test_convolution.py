"""Convolutions in HLO: ranks that differ, and sizes of the kernel that are not known."""

from __future__ import annotations

from hloscope.hlo_parser import parse_hlo
from hloscope.verifier.hlo import verify_hlo

OUTPUT = "needs a known number of output features"
KERNEL = "need a kernel of known sizes and a number of input features that both know or neither"
RANKS = "expects convolution arguments to have same number of dimensions"
CASES = {
    # Sizes of image, kernel and result, in the order b01f_01io->b01f.
    ("2,8,8,4", "3,3,4,5", "2,6,6,5"): "",
    ("<=2,8,8,4", "3,3,4,5", "<=2,6,6,5"): "",
    ("?,8,8,4", "3,3,4,5", "?,6,6,5"): "",
    # The number of output features is one size of the kernel: neither a bound nor unknown.
    ("2,8,8,4", "3,3,4,<=5", "2,6,6,5"): OUTPUT,
    ("2,8,8,4", "3,3,4,<=5", "2,6,6,<=5"): OUTPUT,
    ("2,8,8,4", "3,3,4,?", "2,6,6,5"): OUTPUT,
    ("<=2,8,8,4", "3,3,4,?", "<=2,6,6,5"): OUTPUT,
    # Its spatial sizes and number of input features may have bounds.
    ("2,8,8,4", "3,3,<=4,5", "2,6,6,5"): "",
    ("2,8,8,<=4", "3,3,4,5", "2,6,6,5"): "",
    ("2,8,8,4", "?,3,4,5", "2,6,6,5"): KERNEL,
    ("2,8,8,4", "3,?,4,5", "2,6,6,5"): KERNEL,
    # The number of input features is unknown on both sides or on neither.
    ("2,8,8,?", "3,3,?,5", "2,6,6,5"): "",
    ("2,8,8,?", "3,3,4,5", "2,6,6,5"): KERNEL,
    ("2,8,8,4", "3,3,?,5", "2,6,6,5"): KERNEL,
    # Dimension numbers may name dimensions that an operand of lower rank does not have.
    ("2,8,8,4", "3,3,4", "2,6,6,5"): RANKS,
    ("2,8,8", "3,3,4,5", "2,6,6,5"): RANKS,
    ("<=2,8,8,4", "3,3,4", "<=2,6,6,5"): RANKS,
    ("<=2,8,8,4", "3,3", "<=2,6,6,5"): RANKS,
    ("<=2,8,8", "3,3,4,5", "<=2,6,6,5"): RANKS,
    ("2,8,8,?", "3,3", "2,6,6,5"): RANKS,
    ("2,8,8", "3,3,?,5", "2,6,6,5"): RANKS,
}
"""Sizes of image, kernel and result, and the reason of the refusal; empty if they are accepted."""


def test_kernels_of_unknown_sizes_and_ranks_that_differ_are_refused() -> None:
    for (image, kernel, result), reason in CASES.items():
        text = (
            f"ENTRY e {{ a = f32[{image}] parameter(0) b = f32[{kernel}] parameter(1)"
            f" ROOT c = f32[{result}] convolution(a, b), window={{size=3x3}},"
            " dim_labels=b01f_01io->b01f }"
        )
        found = [diagnostic.message for diagnostic in verify_hlo(parse_hlo(text))]
        assert len(found) == bool(reason), (image, kernel, found)
        assert all(reason in message for message in found), (image, kernel, found)
