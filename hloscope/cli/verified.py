"""Reading of the programs in a text; an invalid one ends the command."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hloscope.api import Module, findings, modules_of
from hloscope.errors import VerifyError
from hloscope.source import Source


def right_modules_of(source: Source, *, split: bool) -> Iterator[Module]:
    """The verified programs of a text; an invalid one ends the command with its findings.

    Results computed from an invalid program have no meaning.
    """
    for module in modules_of(source, split=split):
        wrong = findings(module)
        for diagnostic in wrong:
            click.echo(str(diagnostic), err=True)
        if wrong:
            click.get_current_context().exit(VerifyError.exit_code)
        yield module
