"""Recorded profiles: events of devices from every tool's files, joined with a program's text."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.profiles.events import (
        MOST_EVENTS as MOST_EVENTS,
        MOST_PROFILE as MOST_PROFILE,
        KernelEvent as KernelEvent,
        Kind as Kind,
        Profile as Profile,
        ProfiledDevice as ProfiledDevice,
        ProfiledProgram as ProfiledProgram,
    )
    from hloscope.profiles.joining import (
        Joined as Joined,
        Measured as Measured,
        NotJoined as NotJoined,
        Trust as Trust,
        join as join,
    )
    from hloscope.profiles.names import kernel_name as kernel_name
    from hloscope.profiles.programs import (
        chosen_program as chosen_program,
        program_text as program_text,
        programs_in as programs_in,
    )
    from hloscope.profiles.reading import read_profile as read_profile
    from hloscope.profiles.sniff import is_xspace as is_xspace

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
