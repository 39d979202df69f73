"""Conversions of dialects, and of deprecated or unsupported ops, into other ops."""
