"""Portable artifacts, bytecode and files of `jax.export`: read, written and refined."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from hloscope import hlo_parser, passes, stablehlo, verifier
from hloscope.api.files import read_file
from hloscope.api.finding import language_of
from hloscope.api.invalid import check, refuse_first
from hloscope.display import Shown, health_json, health_text
from hloscope.errors import Diagnostic, InputError, UnknownNameError
from hloscope.mlir import Operation, has_locations, name_as_printed, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import (
    Health,
    artifact_in_version,
    examine,
    is_bytecode,
    is_exported,
    is_vhlo_text,
    parse_vhlo,
    print_vhlo,
    read_artifact,
    read_bytecode,
    read_exported,
    stablehlo_of_tree,
    write_artifact,
)
from hloscope.stablehlo.vhlo import CURRENT, target_of, version_of
from hloscope.support.source import Source, visible

if TYPE_CHECKING:
    from hloscope.api.program import Program
    from hloscope.ir import Module
    from hloscope.stablehlo import Builder, TreeModule


# --------------------------------------------------------------------------------------------------
# Read and write portable artifacts, MLIR bytecode and the files of `jax.export`.


Serializable: TypeAlias = "str | bytes | Source | Operation | Module | Builder | Program"
"""Types that `serialize` takes: text, artifacts, syntax trees, modules, builders, programs."""


def serialize(
    program: Serializable,
    target: str = "current",
    *,
    library: str = "",
    allow_other_dialects: bool = False,
    expand: bool = False,
) -> bytes:
    r"""Return a program as a portable artifact, with the bytes that StableHLO's own writer makes.

    Args:
        program: StableHLO or HLO text, an artifact of another version, a syntax tree, a module, a
            builder or a program.
        target: Version of the artifact: `1.0.0`, or `current`, `min`, `week_4`, `week_12`, `none`,
            `max`.
        library: StableHLO release whose writer is reproduced; the newest one by default. Releases
            write different bytes for the same program and target.
        allow_other_dialects: Keep ops and attributes of other dialects, such as shardings.
        expand: First rewrite ops and attributes that the version lacks into older ones, where
            possible: batching dimensions of gather and scatter, `tan`, ranges of locations,
            replica groups by mesh axes.

    Raises:
        UnknownNameError: There is no such version.
        ParseError: The text is neither StableHLO nor HLO.
        UnsupportedError: An op or attribute has no form in artifacts; the message names all such.
        DowngradeError: The version lacks an op or attribute of the program; the message names all
            such.

    >>> data = serialize("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : "
    ...                  "tensor<2xf32> }", "1.0.0")
    >>> data[5:22]
    b'StableHLO_v1.0.0\x00'
    """
    tree = tree_of(program)
    if expand:
        tree = _expanded(tree, target, library)
    return write_artifact(tree, target, library=library, allow_other_dialects=allow_other_dialects)


def _expanded(tree: Operation, target: str, library: str) -> Operation:
    """Return a program with ops that the target version lacks rewritten, where possible.

    Args:
        tree: The program.
        target: Version of the artifact, as `serialize` takes it.
        library: StableHLO release that is targeted; empty for the newest.
    """
    of = version_of(library) if library else CURRENT
    wanted = (*version_of(target_of(target, of))[:2], 0)
    expander = passes.find_pass("stablehlo-compatibility-expander")
    return expander.apply(stablehlo_of_tree(tree), target=wanted)[0]


def tree_of(program: Serializable) -> Operation:
    """Return the syntax tree of a program; HLO is translated to StableHLO.

    Raises:
        ParseError: The text cannot be parsed.
        UnsupportedError: The program is not StableHLO.
        VerifyError: The program is invalid HLO.
    """
    if isinstance(program, bytes):
        return artifact_tree(program, "<bytes>")
    if isinstance(program, str):
        program = Source("<string>", program)
    if isinstance(program, Source):
        if is_vhlo_text(program.text):
            return parse_vhlo(program.text, program.name)
        if language_of(program) == "stablehlo":
            return parse_mlir(program.text, program.name, dialects=DIALECTS)
        program = hlo_parser.parse_hlo(program.text, name=program.name)
    if isinstance(program, Operation):
        return program
    module: Any = getattr(program, "module", program)
    if hasattr(module, "tree"):
        return module.tree  # type: ignore[no-any-return]
    check(module)
    return stablehlo.to_mlir(module)


def deserialize(data: bytes | os.PathLike[str], *, name: str = "") -> TreeModule:
    """Return the program in a portable artifact of any version, or in output of `jax.export`.

    Args:
        data: The bytes of the artifact, or the path of its file.
        name: Name of the data in messages.

    Raises:
        InputError: The data are not an artifact.
        BytecodeError: The artifact is damaged; the message names the byte and the section.
        UnsupportedError: The artifact has a version that this package does not know.

    >>> text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    >>> deserialize(serialize(text)).entry.name
    'f'
    """
    return stablehlo.to_graph(artifact_tree(*artifact_bytes(data, name)))


def artifact_bytes(data: bytes | os.PathLike[str], name: str = "") -> tuple[bytes, str]:
    """Return the bytes of an artifact, and its name in messages.

    Args:
        data: The bytes of the artifact, or the path of its file.
        name: Name of the data in messages; by default the path.

    Raises:
        InputError: The data are not an artifact.
    """
    if isinstance(data, os.PathLike):
        name = name or os.fspath(data)
        data = read_file(data)
    name = name or "<bytes>"
    if not is_artifact(data):
        raise InputError(f"{name} is neither MLIR bytecode nor what `jax.export` writes")
    return bytes(data), name


def is_artifact(data: bytes) -> bool:
    """Are the data MLIR bytecode or the output of `jax.export`?"""
    return is_bytecode(data) or is_exported(data)


def artifact_tree(data: bytes, name: str) -> Operation:
    """Return the program of an artifact as a syntax tree of StableHLO.

    `data` are the bytes of the artifact, `name` its name in messages.
    """
    return read_artifact(_bytecode(data, name), name)


def artifact_module(data: bytes, name: str) -> TreeModule:
    """Return the program of an artifact as a graph; its value names are those of its printed text.

    `data` are the bytes of the artifact, `name` its name in messages.
    """
    tree = artifact_tree(data, name)
    # Names that the bytecode lacks are given by the printer. If they cannot be set on the tree
    # directly, print and parse it: the graph then has the names that its text shows.
    if name_as_printed(tree, DIALECTS, name):
        return stablehlo.to_graph(tree)
    return stablehlo.parse_stablehlo(text_of_tree(tree), name=name)


def _bytecode(data: bytes, name: str) -> bytes:
    data, name = artifact_bytes(data, name)
    return data if is_bytecode(data) else read_exported(data, name)[0].module


def artifact_text(data: bytes, name: str, *, vhlo: bool = False, generic: bool = False) -> str:
    """Return the text of the program in an artifact, with its locations if it has any.

    Args:
        data: The artifact.
        name: Name of the artifact in messages.
        vhlo: Print the VHLO of the artifact's version instead of StableHLO.
        generic: Print all ops in generic form.
    """
    if vhlo:
        tree = read_bytecode(_bytecode(data, name), name).module
        return print_vhlo(tree, generic=generic, locations=has_locations(tree))
    return text_of_tree(artifact_tree(data, name), generic=generic)


def text_of_tree(tree: Operation, *, generic: bool = False) -> str:
    """Return the text of a StableHLO program, with its locations if there are any.

    `generic` prints all ops in generic form.
    """
    return print_mlir(tree, dialects=DIALECTS, generic=generic, locations=has_locations(tree))


def vhlo_text(
    program: Serializable,
    target: str = "current",
    *,
    library: str = "",
    allow_other_dialects: bool = False,
    expand: bool = False,
    generic: bool = False,
) -> str:
    """Return the VHLO text of the artifact that `serialize` writes for the same arguments.

    `generic` prints all ops in generic form; the other arguments are those of `serialize`.

    Raises:
        UnknownNameError: There is no such version.
        ParseError: The text is neither StableHLO nor HLO.
        UnsupportedError: An op or attribute has no form in artifacts; the message names all such.
        DowngradeError: The version lacks an op or attribute of the program; the message names all
            such.

    >>> text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    >>> print(vhlo_text(text, "1.0.0").splitlines()[2])
        "vhlo.return_v1"(%arg0) : (!vhlo.tensor_v1<2x!vhlo.f32_v1>) -> ()
    """
    tree = tree_of(program)
    if expand:
        tree = _expanded(tree, target, library)
    made = artifact_in_version(
        tree, target, library=library, allow_other_dialects=allow_other_dialects
    )
    return print_vhlo(made.module, generic=generic, locations=has_locations(made.module))


def stablehlo_text(text: str, name: str) -> str:
    """Translate a VHLO text of any version to StableHLO; return any other text unchanged.

    `name` is the name of the text in messages.

    Raises:
        ParseError: The text looks like VHLO but is invalid.
    """
    return text_of_tree(stablehlo_of_tree(parse_vhlo(text, name))) if is_vhlo_text(text) else text


# --------------------------------------------------------------------------------------------------
# Compatibility of an artifact: a file or bytes.


class Diagnosis(Shown, Health, frozen=True):
    """The contents of an artifact, and the versions that can read it.

    Its text is that of `hloscope doctor`.
    """

    def to_json(self) -> dict[str, Any]:
        """Return an object of schema `hloscope.doctor/1`."""
        return health_json(self)

    def __str__(self) -> str:
        return visible(health_text(self).rstrip("\n"))


def doctor(data: bytes | os.PathLike[str], *, name: str = "") -> Diagnosis:
    """Examine an artifact: its versions, contents, and which StableHLO versions can read it.

    Args:
        data: The bytes of the artifact, or the path of its file.
        name: Name of the artifact in messages.

    Raises:
        InputError: It is not an artifact.
        BytecodeError: It is damaged.

    >>> from hloscope.api.artifacts import serialize
    >>> text = '''func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.tan %x : tensor<2xf32>
    ...   return %0 : tensor<2xf32> }'''
    >>> health = doctor(serialize(text, "1.10.0"))
    >>> health.readable_by, health.oldest_target
    ('1.10.0', '1.4.0')
    """
    found = examine(*artifact_bytes(data, name))
    return Diagnosis(*[getattr(found, field) for field in Health.__struct_fields__])


# --------------------------------------------------------------------------------------------------
# Refinement of a syntax tree: sizes that follow from those of the arguments.


ArgumentLike: TypeAlias = Any
"""The type or value of a program's argument.

It is the text of a type, a type, an integer that is the argument's value, an array or any object
with a `shape`, or `None` to leave the argument unchanged.
"""


class Refined(NamedTuple):
    """A program after refinement.

    Attributes:
        tree: The program.
        diagnostics: The findings of the passes.
    """

    tree: Operation
    diagnostics: tuple[Diagnostic, ...]


def verified_tree(program: Serializable, *, allow_unregistered: bool = False) -> Operation:
    """Return the syntax tree of a program, after verification.

    `allow_unregistered` accepts ops of unknown dialects.

    Raises:
        VerifyError: The program is invalid.
    """
    tree = tree_of(program)
    found = verifier.verify_mlir(tree, allow_unregistered=allow_unregistered, first_only=True)
    refuse_first(found)
    return tree


def refined(
    tree: Operation,
    args: str | Sequence[ArgumentLike] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    assertions: bool = True,
) -> Refined:
    """Refine a valid syntax tree for arguments of given sizes.

    Args:
        tree: The program; it must be valid, and is not verified again.
        args: Types, values or arrays of the arguments, as `refine` takes them.
        dims: Sizes of the dimension variables of `jax.export`, by their names, instead of `args`.
        assertions: Check the program's assertions about sizes.

    Raises:
        PassError: The types do not fit, or an assertion does not hold.
        UnknownNameError: The program has no function, or no such dimension variable.
    """
    if args is not None and dims is not None:
        raise UnknownNameError("give either types of the arguments or sizes by name, not both")
    nothing_given = args is None and dims is None
    if not any(op.name == "func.func" for op in tree.walk()):
        raise UnknownNameError("there is no function in the program")
    if dims is not None:
        types = passes.argument_types(tree, dims)
    else:
        tree, types = passes.with_arguments(tree, args)
    steps = passes.refining_steps(tree, types, assertions=None if nothing_given else assertions)
    outcome = passes.run_pipeline(tree, steps)
    if outcome.failed == _CHECKING and all(map(_is_open, outcome.diagnostics)):
        # The assertions cannot be decided yet: they stay in the program.
        outcome = passes.run_pipeline(tree, steps[:-1])
    if not outcome.ok:
        raise _broken_assertion(tree, steps) or passes.failure(outcome)
    return Refined(outcome.module, tuple(outcome.diagnostics))


_CHECKING: Final = "stablehlo-check-shape-assertions"


def _is_open(diagnostic: Diagnostic) -> bool:
    """Does the diagnostic report that an assertion depends on an unknown size?"""
    return diagnostic.message.startswith("expects static ")


def _broken_assertion(tree: Operation, steps: Sequence[passes.Step]) -> passes.PassError | None:
    """Return an error about a violated shape assertion; `None` if no assertion is violated.

    The error is more precise than the type errors that refinement with these sizes reports.

    Args:
        tree: The program after its arguments were set.
        steps: The passes of the refinement; the last one may check the assertions.
    """
    if not steps or steps[-1].name != _CHECKING:
        return None
    if not steps[-1].options.get("enable-shape-assertions", True):
        return None
    # Without the verifier the pipeline gets past the types that do not fit, to the assertions.
    outcome = passes.run_pipeline(tree, steps, verify_each=False)
    said = [found for found in outcome.diagnostics if not _is_open(found)]
    if outcome.failed != steps[-1].name or not said:
        return None
    return passes.failure(passes.Outcome(tree, said, failed=outcome.failed))
