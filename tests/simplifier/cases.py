"""Pairs of (before, after) on `BOX`; every law fires on one of them at least."""

from hloscope.affine import Dim, Interval, Range, Runtime, Var

BOX: dict[Var, Interval] = {
    Dim(0): Interval(0, 63),
    Dim(1): Interval(0, 7),
    Dim(2): Interval(0, 0),
    Dim(3): Interval(-20, 20),
    Range(0): Interval(0, 1023),
    Runtime(0): Interval(1, 16),
}

CASES = [
    # trivial
    ("d2 * 5 + d0", "d0"),
    ("d0 / 64", "0"),
    ("d0 mod 64", "d0"),
    ("(d1 + 8) / 8", "1"),
    # nested divisions
    ("d0 / 3 / 4", "d0 / 12"),
    ("d0 mod 12 / 4", "(d0 / 4) mod 3"),
    ("d0 mod 12 mod 4", "d0 mod 4"),
    ("(d0 / 4 + d1) / 2", "(d1 * 4 + d0) / 8"),
    # multiples, common factors
    ("(d0 * 8 + d1) / 8", "d0"),
    ("(d0 * 8 + d1) mod 8", "d1"),
    ("(d0 * 8 + d1) / 32", "d0 / 4"),
    ("(d0 * 8 + d1) mod 32", "(d0 mod 4) * 8 + d1"),
    ("(s0 * 6 + 9) / 18", "(s0 + 1) / 3"),
    ("(d0 * 16 + d3 * 4 + s0) / 8", "d0 * 2 + (d3 * 4 + s0) / 8"),
    ("((s0 * 3 + d3 mod 3) mod 6) / 2", "((s0 mod 2) * 3 + d3 mod 3) / 2"),
    ("(s0 * 3 + d1) / 6 - s0 / 2", "((s0 mod 2) * 3 + d1) / 6"),
    # digits
    ("d0 / 16 * 16 + d0 mod 16", "d0"),
    ("s0 / 64 * 64 + s0 / 4 mod 16 * 4 + s0 mod 4", "s0"),
    ("(s0 * 7 - s0 / 3 * 12)", "(s0 mod 3) * 4 + s0 * 3"),
    ("s0 - s0 / 3 * 3 + 1", "s0 mod 3 + 1"),
    ("s0 / 1024 * 512 + s0 mod 512", "s0 mod 512"),
    ("(s0 / 20) * 10 + s0 mod 10", "((s0 + 10) / 20) * -10 + s0"),
    # shifted floors
    ("s0 / 2 + (s0 + 1) / 2", "s0"),
    ("s0 / 3 + (s0 + 1) / 3 + (s0 + 2) / 3", "s0"),
    ("(s0 + 1) / 2 - s0 / 2", "s0 mod 2"),
    ("s0 / 4 + (s0 + 2) / 4", "s0 / 2"),
    ("s0 / 2 - s0", "-s0 + s0 / 2"),
    # signs
    ("(-s0) / 4", "-s0 / 4"),
    ("(109 - d0 * 11 - d1) / 11", "-d0 + 9"),
    ("(s0 / 2) / -7", "-((s0 + 12) / 14)"),
    ("d3 mod -4", "d3 mod 4"),
    ("s0 ceildiv 4", "s0 ceildiv 4"),
    ("s0 ceildiv -4", "-(s0 / 4)"),
    # ranges of correlated quotients
    ("(s0 mod 56 * 64 + d0) mod 3712", "(s0 mod 56) * 64 + d0"),
    ("((d0 / 5) * 15 + d0 * 42 + 42) / 224", "d0 / 5"),
    ("(d0 mod 5 * 4 + 3) / 20", "0"),
    # min, max
    ("min(d0, 63)", "d0"),
    ("max(d0, d0 - 1)", "d0"),
    ("min(128, d1 * 16 + 1)", "d1 * 16 + 1"),
    ("max(128, d0 + 1)", "128"),
    ("max(s0 - 8, 0) / 8", "max(s0 / 8 - 1, 0)"),
    # constants inside of a quotient or behind it
    ("(rt0 - 1) / 4", "(rt0 - 1) / 4"),
    ("(rt0 + 3) / 4 - 1", "(rt0 - 1) / 4"),
    ("(s0 - 1) / 4", "(s0 - 1) / 4"),
    ("(s0 + 3) / 4 + 1", "(s0 + 7) / 4"),
    ("(s0 + 3) / 4 + 2", "(s0 + 11) / 4"),
    ("(s0 + 3) / 4 + (d0 + 1) / 3 + 2", "(d0 + 1) / 3 + (s0 + 3) / 4 + 2"),
    ("s0 / 4 + 2", "s0 / 4 + 2"),
    ("(s0 + 3) / 4 * 6 + 12", "((s0 + 11) / 4) * 6"),
    ("(s0 + 3) / 4 * 6 + 13", "((s0 + 3) / 4) * 6 + 13"),
    ("(s0 + 3) / 4 + d0 + 2", "(s0 + 3) / 4 + d0 + 2"),
    ("min(s0, 16) / 16 + max(s0, 16) / 16", "s0 / 16 + 1"),
    ("min(d0 + 3, s0 + 3) - min(d0, s0)", "3"),
    ("min(d0, s0, 2000)", "min(d0, s0)"),
    # remainders that stay leaves, in a form with many divisions
    (
        "((((d0 / 7) mod 3 * 5 + d1) mod 12 + d0 mod 5 * 7) mod 13 + d0 mod 11) mod 6 * 6 mod 12",
        None,
    ),
    # symbols as divisors
    ("(d0 * rt0) / rt0", "d0"),
    ("(d0 * rt0 + d1) mod rt0", "d1 mod rt0"),
    ("d2 / rt0", "0"),
    ("(d1 + 100) mod (d1 + 101)", "d1 + 100"),
    ("(-d2) ceildiv rt0", "0"),
    ("(d2 + 1) * rt0 * d2 * s0", "0"),
    ("min(min(d0, 5) * s0, -1)", "-1"),
    ("(d1 + 1) / (d3 - 100)", "-1"),
]
"""Text of the expression, and of its simplified form."""
