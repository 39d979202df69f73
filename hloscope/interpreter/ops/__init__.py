"""Evaluation of ops, in files named after the op families."""
