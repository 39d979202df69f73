"""How each op indexes: one file per op family, one rule per op and direction.

`registry.lookup` imports the file of a family when it is first asked about one of its ops.
"""
