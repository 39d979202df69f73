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

from hloscope.api.evaluating import evaluate, evaluate_grid
from hloscope.api.indexing import Indexing
from hloscope.api.program import ComputationView, InstructionView, Program, find, find_all
from hloscope.api.reading import Readable, read, read_source
from hloscope.api.verifying import check_expected, verify

__all__ = [
    "ComputationView",
    "Indexing",
    "InstructionView",
    "Program",
    "Readable",
    "check_expected",
    "evaluate",
    "evaluate_grid",
    "find",
    "find_all",
    "read",
    "read_source",
    "verify",
]
