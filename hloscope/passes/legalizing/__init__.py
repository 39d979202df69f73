"""Conversions of one dialect, or of ops that are to go, into others."""
