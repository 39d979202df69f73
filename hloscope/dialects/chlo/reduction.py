"""Rows of the CHLO ops that combine elements: reductions, normalisation, sorting."""

from typing import Final

ROWS: Final = """
    scan | inputs*:any.FBICQA inits*:any.FBICQA | dimension>scan_dimension:i64>=0
        scan_dim_size?:i64>=0 is_reverse?:bool is_associative?:bool | outputs*:any.FBICQA
        carries*:any.FBICQA | ^body isolated segments infer infer ~scan
    top_k | operand:any.FBICQA | k:i64 | values:any.FBICQA indices:any.FBICQA | infer
        ~(%operand, k = <i64 k>)<attrs> : <in> -> (<out>, <out>)
"""
"""Source: `ChloOps.td`."""
