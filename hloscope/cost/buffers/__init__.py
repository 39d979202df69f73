"""Buffers: values of a scheduled program, the memory they share, live ranges, and the peak."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.cost.buffers.dataflow import ALIAS_RULES as ALIAS_RULES, Dataflow as Dataflow
    from hloscope.cost.buffers.model import (
        KINDS as KINDS,
        MUST_SHARE as MUST_SHARE,
        Buffer as Buffer,
        BufferKind as BufferKind,
        Buffers as Buffers,
        Value as Value,
        value_bytes as value_bytes,
    )
    from hloscope.cost.buffers.program import (
        SPACE_NAMES as SPACE_NAMES,
        LiveBuffer as LiveBuffer,
        ProgramMemory as ProgramMemory,
        Sums as Sums,
    )
    from hloscope.cost.buffers.reuse import (
        BACKEND_ROWS as BACKEND_ROWS,
        IN_PLACE as IN_PLACE,
        MAY_SHARE as MAY_SHARE,
        in_place as in_place,
        may_share as may_share,
    )
    from hloscope.cost.buffers.savings import (
        Donation as Donation,
        DonationOffer as DonationOffer,
        Donations as Donations,
        ForcedCopy as ForcedCopy,
        Recomputation as Recomputation,
        Transient as Transient,
        Use as Use,
        Uses as Uses,
        cheapest_order as cheapest_order,
        forced_copies as forced_copies,
        lower_without as lower_without,
        padding_causes as padding_causes,
        recomputations as recomputations,
        second_highest as second_highest,
        transients as transients,
    )
    from hloscope.cost.buffers.schedule import (
        NoMomentsError as NoMomentsError,
        Schedule as Schedule,
        schedule_of as schedule_of,
    )
    from hloscope.cost.buffers.timeline import (
        Timeline as Timeline,
        placed_results as placed_results,
        shared_bytes as shared_bytes,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
