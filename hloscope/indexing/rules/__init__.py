"""Indexing rules of all ops: one file per op family, one rule per op and direction.

`registry.lookup` imports the file of a family at the first query of one of its ops.
"""
