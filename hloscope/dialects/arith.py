"""Rows of the dialect `arith`."""

from typing import Final

ROWS: Final = """
    constant | value ~value
    addi | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    addf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    subi | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    subf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    muli | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    mulf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    divsi | isExact? ~binary_exact
    divui | isExact? ~binary_exact
    divf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    ceildivsi | ~binary_each
    floordivsi | ~binary_each
    remsi | ~binary_each
    remui | ~binary_each
    andi | ~binary_each
    ori | ~binary_each
    xori | ~binary_each
    shli | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    shrsi | isExact? ~binary_exact
    shrui | isExact? ~binary_exact
    maxsi | ~binary_each
    maxui | ~binary_each
    minsi | ~binary_each
    minui | ~binary_each
    maximumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    minimumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    negf | fastmath:any=#arith.fastmath<none>
        ~ %operand<flags fastmath fastmath><attrs> : <each>
    cmpi | predicate
        ~ <numbered integer predicate>, %lhs, %rhs<attrs> : <every type><implied_boolean>
    cmpf | predicate fastmath:any=#arith.fastmath<none>
        ~ <numbered float predicate>, %lhs, %rhs<flags fastmath fastmath><attrs> : <every
        type><implied_boolean>
    index_cast | ~cast
    index_castui | nonNeg? ~cast_nneg
    extsi | ~cast
    extui | nonNeg? ~cast_nneg
    extf | fastmath? ~cast_fastmath
    trunci | overflowFlags:any=#arith.overflow<none>
        ~ %in<flags overflow overflowFlags><attrs> : <in> to <out>
    truncf | roundingmode? fastmath? ~cast_fastmath
    sitofp | ~cast
    uitofp | nonNeg? ~cast_nneg
    fptosi | ~cast
    fptoui | ~cast
    bitcast | ~cast
    select |
        ~ %condition, %true, %false<attrs> : <choice>
    maxnumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    minnumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    remf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    ceildivui | ~binary_each
    addui_extended names=sum,overflow |
    subui_extended |
    mulsi_extended names=low,high |
    mului_extended names=low,high |
"""
"""Source: MLIR's definition of the dialect."""
