"""Layout languages and indexing maps: Triton's linear layouts, CuTe's, sums of iterators."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.layouts.strided import (
        Mode as Mode,
        Strided as Strided,
        divisors as divisors,
        strided_form as strided_form,
        supposed as supposed,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
