"""Scans: facts about many programs in tables, by processes on one machine or several."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.checks.scan.running import (
        ChildProcess as ChildProcess,
        Done as Done,
        Engine as Engine,
        Failure as Failure,
        Limits as Limits,
        alone as alone,
        engine_of as engine_of,
        given_engine as given_engine,
        in_order as in_order,
    )
    from hloscope.checks.scan.store import (
        Digests as Digests,
        Store as Store,
        code_digest as code_digest,
        encoded as encoded,
    )
    from hloscope.checks.scan.tables import (
        KERNELS as KERNELS,
        MODULES as MODULES,
        QUESTIONS as QUESTIONS,
        Answer as Answer,
        Tables as Tables,
        ask as ask,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
