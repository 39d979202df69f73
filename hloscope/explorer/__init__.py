"""The explorer: a program and its results as one page that loads nothing from elsewhere."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.explorer.answers import Answers as Answers, Read as Read
    from hloscope.explorer.expressions import map_json as map_json
    from hloscope.explorer.kernels import (
        Kernels as Kernels,
        chain_facts as chain_facts,
        chain_places as chain_places,
        chain_sources as chain_sources,
        coalescing_facts as coalescing_facts,
        footprint_facts as footprint_facts,
        tile_facts as tile_facts,
    )
    from hloscope.explorer.page import Contents as Contents, frame as frame, page_of as page_of
    from hloscope.explorer.program import Numbering as Numbering, details as details, rows as rows
    from hloscope.explorer.tables import (
        in_sequence as in_sequence,
        out_of_sequence as out_of_sequence,
        readable as readable,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
