"""Buffers: what memory the values of a scheduled program take, from when to when."""
