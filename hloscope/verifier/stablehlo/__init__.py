"""Verification of MLIR modules with StableHLO ops, in the order of MLIR's verifier."""
