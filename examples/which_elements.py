"""Ask a program which elements its fusions read, and draw the answer.

python examples/which_elements.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import hloscope as hs


def main(file: str) -> None:
    """Print for each fusion what an output element reads of each operand."""
    program = hs.read(file)
    for fusion in program.fusions():
        print(f"{fusion.name}: {fusion.shape}")
        for operand in fusion.indexing():
            for access in operand:
                print(f"  {operand.name:14} {access.precision:8} {access.map or access.reason}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("kv_cache.hlo")))
