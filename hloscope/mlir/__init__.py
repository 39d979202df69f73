"""MLIR as such: operations, attributes, types, locations, and their text; no dialect's meaning."""
