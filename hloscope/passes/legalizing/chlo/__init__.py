"""CHLO as StableHLO: broadcasts, composed ops, and functions of mathematics, family by family."""
