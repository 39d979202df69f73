"""Passes for any dialect: duplicate and unused operations, symbols, calls."""
