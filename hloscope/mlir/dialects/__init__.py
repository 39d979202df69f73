"""Definitions of the ops of MLIR dialects, a row per op.

The tables of rows are in `<dialect>/<family>.py` or `<dialect>.py`.  `rows` explains their
notation; `registry` collects them.
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.mlir.dialects.attributes import EMPTY as EMPTY
    from hloscope.mlir.dialects.attributes.shardy import (
        SDY_STRUCTS as SDY_STRUCTS,
        axes_of as axes_of,
        factor_name as factor_name,
        frontend_values as frontend_values,
        mesh_of as mesh_of,
        meshes_in as meshes_in,
        sdy_struct as sdy_struct,
        sdy_text as sdy_text,
        shardy_value as shardy_value,
    )
    from hloscope.mlir.dialects.attributes.structs import (
        ENUMS as ENUMS,
        sparse_struct as sparse_struct,
    )
    from hloscope.mlir.dialects.registry import (
        CALLEES as CALLEES,
        CLASSES as CLASSES,
        DEFINITIONS as DEFINITIONS,
        DIALECTS as DIALECTS,
        is_isolated as is_isolated,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
