"""Checks for CI: rules over programs, findings and reports; scans of many programs."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.checks.memory import (
        NO_LIMIT as NO_LIMIT,
        CollectiveUse as CollectiveUse,
        PaddedArrays as PaddedArrays,
        collectives_of as collectives_of,
        padded_arrays as padded_arrays,
    )
    from hloscope.checks.reports import (
        TOP as TOP,
        github_text as github_text,
        junit_text as junit_text,
        markdown_text as markdown_text,
        report_text as report_text,
        sarif as sarif,
    )
    from hloscope.checks.rule import (
        SCHEMA as SCHEMA,
        UNREAD as UNREAD,
        Finding as Finding,
        Report as Report,
        Rule as Rule,
        Subject as Subject,
        baseline_of as baseline_of,
    )
    from hloscope.checks.settings import (
        FILE as FILE,
        RULES as RULES,
        Setting as Setting,
        check_program as check_program,
        merged as merged,
        setting_from_option as setting_from_option,
        setting_of as setting_of,
        settings_of as settings_of,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
