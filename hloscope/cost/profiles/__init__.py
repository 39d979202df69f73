"""Profiles: events of devices from the files of several tools, joined with a program's text."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.cost.profiles.events import (
        MOST_EVENTS as MOST_EVENTS,
        MOST_PROFILE as MOST_PROFILE,
        KernelEvent as KernelEvent,
        Kind as Kind,
        Profile as Profile,
        ProfiledDevice as ProfiledDevice,
        ProfiledProgram as ProfiledProgram,
        is_xspace as is_xspace,
    )
    from hloscope.cost.profiles.joining import (
        Joined as Joined,
        Measured as Measured,
        NotJoined as NotJoined,
        Trust as Trust,
        join as join,
    )
    from hloscope.cost.profiles.reading import (
        chosen_program as chosen_program,
        program_text as program_text,
        programs_in as programs_in,
        read_profile as read_profile,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
