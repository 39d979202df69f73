"""Answers as text, JSON, HTML and SVG.

Users meet them as methods of `hloscope.Indexing`.
"""
