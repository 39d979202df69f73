"""Arithmetic that numpy alone does not have: narrow formats, rounding, special functions."""
