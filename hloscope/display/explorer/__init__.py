"""The explorer: a program and its results as one HTML page that loads no other file."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.display.explorer.page import (
        Answers as Answers,
        Contents as Contents,
        Read as Read,
        frame as frame,
        in_sequence as in_sequence,
        map_json as map_json,
        page_of as page_of,
        readable as readable,
    )
    from hloscope.display.explorer.program import (
        Kernels as Kernels,
        Numbering as Numbering,
        chain_facts as chain_facts,
        chain_places as chain_places,
        chain_sources as chain_sources,
        coalescing_facts as coalescing_facts,
        details as details,
        footprint_facts as footprint_facts,
        rows as rows,
        tile_facts as tile_facts,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
