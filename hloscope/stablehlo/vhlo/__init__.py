"""VHLO, StableHLO's versioned dialect: its versions, and conversion between any two of them."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.stablehlo.vhlo.attributes import ALGORITHM as ALGORITHM
    from hloscope.stablehlo.vhlo.convert import (
        Converted as Converted,
        DowngradeError as DowngradeError,
        Need as Need,
        Needs as Needs,
        Obstacle as Obstacle,
        convert_to_current as convert_to_current,
        obstacles as obstacles,
        to_version as to_version,
    )
    from hloscope.stablehlo.vhlo.legalize import (
        convert_to_stablehlo as convert_to_stablehlo,
        to_stablehlo as to_stablehlo,
        to_vhlo as to_vhlo,
    )
    from hloscope.stablehlo.vhlo.tables import (
        ATTRIBUTES as ATTRIBUTES,
        ENUMS as ENUMS,
        OPS as OPS,
        TYPES as TYPES,
        CodeRow as CodeRow,
        OpRow as OpRow,
        attributes_of as attributes_of,
        code_row as code_row,
    )
    from hloscope.stablehlo.vhlo.trees import (
        CAST as CAST,
        has_vhlo_type as has_vhlo_type,
        is_vhlo_op as is_vhlo_op,
    )
    from hloscope.stablehlo.vhlo.versions import (
        CURRENT as CURRENT,
        FOREVER as FOREVER,
        MINIMUM as MINIMUM,
        RELEASES as RELEASES,
        Release as Release,
        Version as Version,
        bytecode_version as bytecode_version,
        target_of as target_of,
        version_of as version_of,
        version_text as version_text,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
