"""Data movement: chains of reshapes, transposes, copies and broadcasts, and what cancels."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.movement.bitcasts import (
        BitcastParts as BitcastParts,
        decompose_bitcast as decompose_bitcast,
    )
    from hloscope.movement.chains import Chain as Chain
    from hloscope.movement.checks import Rewriting as Rewriting, rewrite as rewrite
    from hloscope.movement.drafts import as_it_stands as as_it_stands, rewritten as rewritten
    from hloscope.movement.finding import chain_to as chain_to, chains_of as chains_of
    from hloscope.movement.flow import Flow as Flow
    from hloscope.movement.passing import Passing as Passing, passings_of as passings_of
    from hloscope.movement.patterns import Pattern as Pattern
    from hloscope.movement.plans import (
        BEFORE as BEFORE,
        ONCE as ONCE,
        SAME as SAME,
        Plan as Plan,
        Planner as Planner,
    )
    from hloscope.movement.rearranging import (
        Rearrangement as Rearrangement,
        combined as combined,
        flat as flat,
        split_transposed as split_transposed,
    )
    from hloscope.movement.reshapes import (
        MinimalReshape as MinimalReshape,
        ReshapeCategory as ReshapeCategory,
        minimal_reshapes as minimal_reshapes,
    )
    from hloscope.movement.savings import Figures as Figures, Savings as Savings
    from hloscope.movement.traffic import bytes_of as bytes_of, is_view as is_view
    from hloscope.movement.verdicts import Judgement as Judgement, Kind as Kind, judge as judge
    from hloscope.movement.walking import Leaf as Leaf

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
