"""Answers as text, JSON, HTML and SVG.

Users meet them as methods of `hloscope.Indexing`.
"""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.display.answer import (
        Answer as Answer,
        Direction as Direction,
        OperandAnswer as OperandAnswer,
        OperandAnswers as OperandAnswers,
        Order as Order,
        OutputAnswer as OutputAnswer,
        opcode_of as opcode_of,
        shape_text as shape_text,
        to_json as to_json,
    )
    from hloscope.display.boxes import Index as Index
    from hloscope.display.provenance import (
        Provenance as Provenance,
        SourcePattern as SourcePattern,
        glob as glob,
        metadata_of as metadata_of,
        provenance_of as provenance_of,
    )
    from hloscope.display.symbolic_tiles import symbolic_text as symbolic_text
    from hloscope.display.table import (
        Side as Side,
        columns as columns,
        fitted as fitted,
        tab_separated as tab_separated,
    )
    from hloscope.display.text import (
        headline as headline,
        to_print_indexing as to_print_indexing,
        to_text as to_text,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
