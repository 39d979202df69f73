"""VHLO, StableHLO's versioned dialect: its versions, and conversion between any two of them."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.vhlo.codes import (
        ATTRIBUTES as ATTRIBUTES,
        ENUMS as ENUMS,
        TYPES as TYPES,
        CodeRow as CodeRow,
        code_row as code_row,
    )
    from hloscope.vhlo.convert import (
        Converted as Converted,
        DowngradeError as DowngradeError,
        to_version as to_version,
        turn_into_current as turn_into_current,
    )
    from hloscope.vhlo.legalize import to_vhlo as to_vhlo
    from hloscope.vhlo.needs import (
        Need as Need,
        Needs as Needs,
        Obstacle as Obstacle,
        obstacles as obstacles,
    )
    from hloscope.vhlo.ops import OPS as OPS, OpRow as OpRow, attributes_of as attributes_of
    from hloscope.vhlo.restore import (
        to_stablehlo as to_stablehlo,
        turn_into_stablehlo as turn_into_stablehlo,
    )
    from hloscope.vhlo.trees import Rebuild as Rebuild, copied as copied, every_op as every_op
    from hloscope.vhlo.versions import (
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
