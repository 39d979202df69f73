"""The error of a kernel that cannot run on."""

from __future__ import annotations

from hloscope.errors import HloscopeError


class KernelError(HloscopeError):
    """A kernel stops: wrong arguments, an address outside its arrays, a limit, a trap.

    Of a limit that was reached, `rule` is the name of the parameter that allows more.
    """

    exit_code = 1
