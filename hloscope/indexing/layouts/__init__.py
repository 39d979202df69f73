"""Layout languages and indexing maps: Triton's linear layouts, CuTe layouts, iterator sums."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.indexing.layouts.cute import (
        CuteLayout as CuteLayout,
        Swizzle as Swizzle,
        cute_of as cute_of,
    )
    from hloscope.indexing.layouts.digits import (
        Digits as Digits,
        Mode as Mode,
        Strided as Strided,
        digits_of as digits_of,
        divisors as divisors,
        form_of as form_of,
        supposed as supposed,
    )
    from hloscope.indexing.layouts.linear import (
        LinearLayout as LinearLayout,
        Side as Side,
        linear_of as linear_of,
    )
    from hloscope.indexing.layouts.sums import (
        Iterators as Iterators,
        IterSplit as IterSplit,
        IterSum as IterSum,
        iterators_of as iterators_of,
    )
    from hloscope.indexing.layouts.triton import (
        Blocked as Blocked,
        index_by_thread as index_by_thread,
        layout_text as layout_text,
        neighbours as neighbours,
        over_tiles as over_tiles,
        parse_layout as parse_layout,
        thread_map as thread_map,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
