"""The exit codes and what they mean."""

from __future__ import annotations

from typing import Final

EXIT_CODES: Final = {
    0: "fine",
    1: "a check failed",
    2: "usage: an unknown command, option, instruction",
    3: "the input cannot be read, does not parse or does not verify",
    4: "undecided, or valid input that is not supported yet",
    5: "our own bug; --debug shows where",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""As help, the manual page and the documentation tell them."""
