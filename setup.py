"""What pyproject.toml cannot say: with `HLOSCOPE_COMPILE=1` the simplifier is compiled by mypyc.

The same sources are compiled that run otherwise: the package never needs it, and a wheel that is
built without the variable is pure Python.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup

MYPYC = "mypy[mypyc]>=2.4"
COMPILED = (
    "hloscope/affine/sums.py",
    "hloscope/simplifier/engine.py",
    "hloscope/simplifier/quotients.py",
    "hloscope/simplifier/ranges.py",
    "hloscope/simplifier/sums.py",
)


def compiled() -> list[Extension]:
    """The modules of `COMPILED` as extensions; errors elsewhere are not the build's business."""
    from mypyc.build import mypycify

    options = ["--config-file=", "--follow-imports=silent"]
    return mypycify([*options, *COMPILED], debug_level="0", group_name="hloscope")


if os.environ.get("HLOSCOPE_COMPILE", "0") in ("", "0"):
    setup()
else:
    try:
        extensions = compiled()
    except ImportError:
        setup(setup_requires=[MYPYC])  # from here pip learns what the build needs
        sys.exit(f"HLOSCOPE_COMPILE needs {MYPYC}")
    setup(ext_modules=extensions)
