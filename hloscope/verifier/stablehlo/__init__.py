"""Verification of MLIR modules with StableHLO, walking the syntax tree as MLIR's verifier does."""
