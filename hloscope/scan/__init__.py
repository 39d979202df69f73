"""Scans: the facts of many programs in tables, by processes on one machine or many."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.scan.identity import Digests as Digests, encoded as encoded
    from hloscope.scan.isolation import (
        Apart as Apart,
        Limits as Limits,
        Why as Why,
        alone as alone,
    )
    from hloscope.scan.questions import QUESTIONS as QUESTIONS, Answer as Answer, ask as ask
    from hloscope.scan.running import (
        Done as Done,
        Engine as Engine,
        engine_of as engine_of,
        given_engine as given_engine,
        in_order as in_order,
    )
    from hloscope.scan.store import Store as Store, code_digest as code_digest
    from hloscope.scan.tables import KERNELS as KERNELS, MODULES as MODULES, Tables as Tables

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
