"""Data movement: chains of reshapes, transposes, copies and broadcasts, and what cancels."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.movement.chains import Chain as Chain, Pattern as Pattern
    from hloscope.movement.drafts import (
        Rewriting as Rewriting,
        chain_program as chain_program,
        rewrite as rewrite,
        rewritten as rewritten,
    )
    from hloscope.movement.flow import Flow as Flow
    from hloscope.movement.plans import (
        BEFORE as BEFORE,
        ONCE as ONCE,
        SAME as SAME,
        Plan as Plan,
        Planner as Planner,
    )
    from hloscope.movement.rearranging import (
        BitcastParts as BitcastParts,
        MinimalReshape as MinimalReshape,
        Rearrangement as Rearrangement,
        ReshapeCategory as ReshapeCategory,
        combined as combined,
        decompose_bitcast as decompose_bitcast,
        flat as flat,
        minimal_reshapes as minimal_reshapes,
        split_transposed as split_transposed,
    )
    from hloscope.movement.savings import (
        Figures as Figures,
        Savings as Savings,
        chain_to as chain_to,
        chains_of as chains_of,
    )
    from hloscope.movement.traffic import (
        Exchange as Exchange,
        bytes_of as bytes_of,
        exchanges_of as exchanges_of,
        is_view as is_view,
    )
    from hloscope.movement.verdicts import Judgement as Judgement, Kind as Kind, judge as judge
    from hloscope.movement.walking import Leaf as Leaf

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
