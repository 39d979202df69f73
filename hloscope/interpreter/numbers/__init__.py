"""Arithmetic that numpy lacks: narrow formats, rounding, special functions."""
