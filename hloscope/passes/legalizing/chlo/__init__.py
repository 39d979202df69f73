"""CHLO as StableHLO: broadcasts, composed ops and mathematical functions, by family."""
