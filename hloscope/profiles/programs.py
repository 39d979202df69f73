"""The compiled programs inside a profile, as modules."""

from __future__ import annotations

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.hlo_parser import parse_hlo, proto_text
from hloscope.ir import Module
from hloscope.profiles.events import Profile, ProfiledProgram


def programs_in(profile: Profile) -> dict[int, Module]:
    """Return the programs inside a profile by `program_id`; empty if the form has none.

    Raises:
        ParseError: The bytes of a program are damaged.
        UnsupportedError: A program has a field that is not read.
    """
    return {
        program.program_id: parse_hlo(
            program_text(profile, program), name=_called(profile, program)
        )
        for program in profile.programs
    }


def program_text(profile: Profile, program: ProfiledProgram) -> str:
    """Return the HLO text of a program inside a profile."""
    return proto_text(program.proto, _called(profile, program))


def _called(profile: Profile, program: ProfiledProgram) -> str:
    return f"{profile.source}#{program.label}"


def chosen_program(profile: Profile, choice: str) -> ProfiledProgram:
    """Return the program named `NAME`, `ID` or `NAME(ID)`; the only one if the name is empty.

    Raises:
        UnknownNameError: No program has that name, or several have it; the message lists them.
    """
    programs = profile.programs
    labels = ", ".join([f"`{profile.source}#{p.label}`" for p in programs[:8]])
    if len(programs) > 8:
        labels += f" and {len(programs) - 8} more"
    if not programs:
        raise UnknownNameError(f"{profile.source}: the profile has no programs inside")
    if not choice:
        if len(programs) > 1:
            many = f"{profile.source} has {len(programs)} programs"
            raise UnknownNameError(f"{many}: name one of {labels}")
        return programs[0]
    found = [p for p in programs if choice in (p.name, p.label, str(p.program_id))]
    if len(found) == 1:
        return found[0]
    if not found:
        near = did_you_mean(choice, [p.name for p in programs])
        raise UnknownNameError(f"{profile.source} has no program `{choice}`{near}: it has {labels}")
    several = ", ".join([f"`{p.label}`" for p in found[:8]])
    raise UnknownNameError(f"{profile.source} has several programs `{choice}`: {several}")
