"""`index --all` for many programs: results in the order of the files, errors on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click

from hloscope.api import FileAnswers, IndexQuestion, KeptAnswers, answer_files, programs_at
from hloscope.cli.streams import STDIN, read_stdin, with_progress

_BLOCK = 1 << 20


def print_corpus(
    files: Sequence[str],
    question: IndexQuestion,
    jobs: int | None,
    cache: str | None,
    most: int,
) -> None:
    """Print the results for many programs, one JSON object per line; exit with the largest code.

    Args:
        files: Files, directories, patterns, URLs, and `-` for the standard input.
        question: The query for each instruction.
        jobs: Number of processes.
        cache: Folder of the cache; `None` for no cache.
        most: Limit of the cache in bytes.
    """
    given = list(_given(files))
    kept = None if cache is None else KeptAnswers(Path(cache), most)
    code, trouble = 0, ""
    with closing(answer_files(given, question, jobs=jobs, kept=kept)) as answers:
        for _ in with_progress(given, "indexing"):
            found = next(answers)
            _print(found)
            code, trouble = max(code, found.code), trouble or found.trouble
        next(answers, None)  # runs the generator to its end, where it stops its processes
    if trouble:
        click.echo(f"the cache was not written: {trouble}", err=True)
    if code:
        click.get_current_context().exit(code)


def _given(files: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name of each program with `None`; for the standard input, with its bytes.

    `files` are files, directories, patterns, URLs, and `-` for the standard input.
    """
    for file in files:
        if file == "-":
            yield STDIN, read_stdin()
        else:
            for one in programs_at(file):
                yield one, None


def _print(found: FileAnswers) -> None:
    if sys.stdout is not None:  # else it was closed when the process started
        with open(found.path, encoding="utf-8", newline="") as file:
            while text := file.read(_BLOCK):
                sys.stdout.write(text)
    if found.message:
        if sys.stdout is not None:
            sys.stdout.flush()
        click.echo(found.message, err=True)
