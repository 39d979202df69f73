"""Dump folders of XLA."""
