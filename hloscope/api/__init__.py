"""What `import hloscope` gives: read a program, ask about its instructions.

>>> import hloscope
>>> program = hloscope.read('''
... ENTRY e {
...   p = f32[4,8] parameter(0)
...   t = f32[8,4] transpose(p), dimensions={1,0}
...   ROOT n = f32[8,4] negate(t)
... }''')
>>> program["t"].indexing()
t = f32[8,4] transpose(p)
<BLANKLINE>
Element (d0, d1) of the output, f32[8,4], reads
<BLANKLINE>
  operand 0  f32[4,8]  p
    (d0, d1) -> (d1, d0)   exact
"""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.api.compressed import read_stream as read_stream
    from hloscope.api.evaluating import evaluate as evaluate, evaluate_grid as evaluate_grid
    from hloscope.api.explaining import check as check, findings as findings
    from hloscope.api.indexing import Indexing as Indexing
    from hloscope.api.language import language_of as language_of
    from hloscope.api.program import (
        ComputationView as ComputationView,
        InstructionView as InstructionView,
        Program as Program,
        find as find,
        find_all as find_all,
    )
    from hloscope.api.reading import Readable as Readable, read as read, read_source as read_source
    from hloscope.api.selecting import (
        SORTS as SORTS,
        Key as Key,
        Place as Place,
        Selection as Selection,
        sort_key as sort_key,
    )
    from hloscope.api.tensor import Element as Element, Tensor as Tensor
    from hloscope.api.verifying import check_expected as check_expected, verify as verify

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
