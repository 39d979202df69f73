"""Passes: from a module to a module."""
