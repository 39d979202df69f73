"""What the MLIR dialects declare: one row for an op, in `<dialect>/<family>.py` or `<dialect>.py`.

`rows` explains the notation; `registry` puts the rows together.
"""
