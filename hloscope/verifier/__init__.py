"""Verification: what is wrong with a module, every finding."""
