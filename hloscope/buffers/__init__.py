"""Buffers: values of a scheduled program, the memory they share, live ranges, and the peak."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.buffers.copies import ForcedCopy as ForcedCopy, forced_copies as forced_copies
    from hloscope.buffers.dataflow import SHOWN as SHOWN, Dataflow as Dataflow
    from hloscope.buffers.donations import (
        Donation as Donation,
        DonationOffer as DonationOffer,
        Donations as Donations,
    )
    from hloscope.buffers.model import (
        KINDS as KINDS,
        Buffer as Buffer,
        BufferKind as BufferKind,
        Buffers as Buffers,
        Value as Value,
        value_bytes as value_bytes,
    )
    from hloscope.buffers.padding import (
        cheapest_order as cheapest_order,
        padding_causes as padding_causes,
    )
    from hloscope.buffers.program import (
        SPACE_NAMES as SPACE_NAMES,
        LiveBuffer as LiveBuffer,
        ProgramMemory as ProgramMemory,
        Sums as Sums,
    )
    from hloscope.buffers.recomputing import (
        Recomputation as Recomputation,
        lower_without as lower_without,
        recomputations as recomputations,
        second_highest as second_highest,
    )
    from hloscope.buffers.reuse import (
        BACKEND_ROWS as BACKEND_ROWS,
        MAY_SHARE as MAY_SHARE,
        may_share as may_share,
    )
    from hloscope.buffers.schedule import (
        NoMomentsError as NoMomentsError,
        Schedule as Schedule,
        schedule_of as schedule_of,
    )
    from hloscope.buffers.sharing import MUST_SHARE as MUST_SHARE
    from hloscope.buffers.short_lived import Transient as Transient, transients as transients
    from hloscope.buffers.timeline import (
        Timeline as Timeline,
        placed_results as placed_results,
        shared_bytes as shared_bytes,
    )
    from hloscope.buffers.updates import IN_PLACE as IN_PLACE, in_place as in_place
    from hloscope.buffers.uses import Use as Use, Uses as Uses

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
