"""Rows of the dialect `interpreter`."""

from typing import Final

ROWS: Final = """
    print | operand:FBICQ | | |
        ~ %operand<attrs> : <every type>
    probe | operand:FBICQ | probe_id:string | result:FBICQ | same_type
        ~ %operand, probe_id = <string probe_id><attrs> : <each>
    run_parallel | inputs*:FBICQ/token | infeed?:symbols programs:programs | results*:FBICQ/token |
"""
"""Source: `InterpreterOps.td`."""
