"""HLO text: parser to the program graph, and printer."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.hlo_parser.detection import is_proto as is_proto
    from hloscope.hlo_parser.devices import (
        Sharding as Sharding,
        TileSharding as TileSharding,
        TupleSharding as TupleSharding,
        WholeSharding as WholeSharding,
        read_sharding as read_sharding,
    )
    from hloscope.hlo_parser.literals import (
        literal_value as literal_value,
        print_literal as print_literal,
    )
    from hloscope.hlo_parser.metadata import (
        Frame as Frame,
        Metadata as Metadata,
        read_backend_config as read_backend_config,
        read_metadata as read_metadata,
        source_trace as source_trace,
    )
    from hloscope.hlo_parser.nodes import (
        TextInstruction as TextInstruction,
        decode_module as decode_module,
        unscheduled_key as unscheduled_key,
    )
    from hloscope.hlo_parser.opcodes import COMMON as COMMON, SPELLINGS as SPELLINGS
    from hloscope.hlo_parser.printer import (
        STYLES as STYLES,
        Style as Style,
        instruction_printer as instruction_printer,
        print_hlo as print_hlo,
        print_instruction as print_instruction,
        rest_printer as rest_printer,
    )
    from hloscope.hlo_parser.proto.module import (
        allocated_bytes as allocated_bytes,
        proto_text as proto_text,
        recorded_arguments as recorded_arguments,
    )
    from hloscope.hlo_parser.reader import (
        decode as decode,
        parse_hlo as parse_hlo,
        parse_hlo_all as parse_hlo_all,
    )
    from hloscope.hlo_parser.sections import (
        BUFFER_DONOR as BUFFER_DONOR,
        INPUT_OUTPUT_ALIAS as INPUT_OUTPUT_ALIAS,
        OPERAND_ALIASING as OPERAND_ALIASING,
        Aliasing as Aliasing,
        ShapeIndex as ShapeIndex,
        aliasing_in as aliasing_in,
        index_text as index_text,
        read_aliasing as read_aliasing,
    )
    from hloscope.hlo_parser.signatures import PAIRED as PAIRED, signature as signature
    from hloscope.hlo_parser.spelling import opcode_of as opcode_of, template as template
    from hloscope.hlo_parser.types import (
        brief_list as brief_list,
        brief_type as brief_type,
        parse_type as parse_type,
        print_array as print_array,
        print_type as print_type,
        read_type as read_type,
        spell as spell,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
