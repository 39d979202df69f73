"""The error that ends a kernel's execution."""

from __future__ import annotations

from hloscope.errors import HloscopeError


class KernelError(HloscopeError):
    """A kernel cannot run on: wrong arguments, an invalid address, a limit, or a trap.

    For an exceeded limit, `rule` is the name of the parameter that raises it.
    """

    exit_code = 1
