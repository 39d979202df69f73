"""Reading and writing of MLIR bytecode, with the dialects of portable artifacts."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.stablehlo.bytecode.artifacts import (
        Health as Health,
        artifact_in_version as artifact_in_version,
        examine as examine,
        in_version as in_version,
        read_artifact as read_artifact,
        stablehlo_of_tree as stablehlo_of_tree,
        without_locations as without_locations,
        write_artifact as write_artifact,
    )
    from hloscope.stablehlo.bytecode.exported import (
        Exported as Exported,
        is_exported as is_exported,
        read_exported as read_exported,
    )
    from hloscope.stablehlo.bytecode.fields import BytecodeError as BytecodeError
    from hloscope.stablehlo.bytecode.image import (
        SECTIONS as SECTIONS,
        Image as Image,
        is_bytecode as is_bytecode,
        version_in as version_in,
    )
    from hloscope.stablehlo.bytecode.reader import (
        Bytecode as Bytecode,
        read_bytecode as read_bytecode,
    )
    from hloscope.stablehlo.bytecode.vhlo_parsing import (
        is_vhlo_text as is_vhlo_text,
        parse_vhlo as parse_vhlo,
    )
    from hloscope.stablehlo.bytecode.vhlo_printing import print_vhlo as print_vhlo
    from hloscope.stablehlo.bytecode.writer import write_bytecode as write_bytecode

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
