"""Checks for CI: rules over programs, their findings, and reports for other tools."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.checks.collectives import (
        NO_LIMIT as NO_LIMIT,
        CollectiveUse as CollectiveUse,
        collectives_of as collectives_of,
    )
    from hloscope.checks.findings import (
        SCHEMA as SCHEMA,
        UNREAD as UNREAD,
        Finding as Finding,
        Report as Report,
        baseline_of as baseline_of,
    )
    from hloscope.checks.junit import junit_text as junit_text
    from hloscope.checks.padding import (
        PaddedArrays as PaddedArrays,
        padded_arrays as padded_arrays,
    )
    from hloscope.checks.registry import RULES as RULES
    from hloscope.checks.reports import (
        TOP as TOP,
        github_text as github_text,
        markdown_text as markdown_text,
        report_text as report_text,
    )
    from hloscope.checks.rule import Rule as Rule
    from hloscope.checks.sarif_log import sarif as sarif
    from hloscope.checks.settings import (
        FILE as FILE,
        Setting as Setting,
        check_program as check_program,
        merged as merged,
        setting_from_option as setting_from_option,
        setting_of as setting_of,
        settings_of as settings_of,
    )
    from hloscope.checks.subject import Subject as Subject

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
