"""Programs after passes, and the inferred types of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hloscope import mlir, passes, stablehlo, verifier
from hloscope.api.artifacts import ArgumentLike, Serializable, refined, tree_of, verified_tree
from hloscope.api.finding import joined, language_of, pieces_of, programs_in
from hloscope.api.program import Program
from hloscope.display import OpTypes, opcodes
from hloscope.errors import Diagnostic, HloscopeError, ParseError, UnknownNameError
from hloscope.hlo_parser import parse_hlo, print_type
from hloscope.ir import Type
from hloscope.mlir import Operation, dialects, parse_mlir, print_mlir, type_text
from hloscope.mlir.dialects import DIALECTS
from hloscope.ops import Parameter
from hloscope.stablehlo import has_inference_tests, inferred_types, run_inference_tests
from hloscope.support.lazy import pattern
from hloscope.support.source import Source
from hloscope.verifier import CheckKey, check_key, inferred

# --------------------------------------------------------------------------------------------------
# Programs after passes: pipelines by name, and refinement to given sizes.


def opt(
    program: Serializable,
    pipeline: str | Sequence[str],
    *,
    allow_unregistered: bool = False,
    verify_each: bool = True,
) -> Program:
    """Return a program after passes.

    Args:
        program: Any argument that `serialize` takes; HLO is translated to StableHLO.
        pipeline: Names of passes, commas between, with options in braces:
            `refine-arguments{types=tensor<16xf32>},refine-shapes`; `hloscope.passes.pass_names()`
            lists them.  Upstream's names and `builtin.module(func.func(…))` are fine too.
        allow_unregistered: Accept ops of unknown dialects.
        verify_each: Verify the program after each pass.

    Raises:
        UnknownNameError: A pass, or an option of a pass, does not exist.
        VerifyError: The program is invalid.
        PassError: A pass failed, or its result is invalid.

    >>> import hloscope
    >>> text = "func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"
    >>> print(hloscope.opt(text, "remove-dynamism{types=tensor<4xf32>}").text(), end="")
    module {
      func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> {
        return %arg0 : tensor<4xf32>
      }
    }
    """
    texts = [pipeline] if isinstance(pipeline, str) else pipeline
    steps = [step for text in texts for step in passes.parse_pipeline(text)]
    tree = verified_tree(program, allow_unregistered=allow_unregistered)
    outcome = passes.run_pipeline(
        tree, steps, allow_unregistered=allow_unregistered, verify_each=verify_each
    )
    if not outcome.ok:
        raise passes.failure(outcome)
    return program_of(outcome.module)


def explain_dynamic(program: Serializable) -> list[passes.Explanation]:
    """Explain each value of unknown size by the path back to the op that its size comes from.

    >>> text = "func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"
    >>> [(found.value.name, found.origin.kind) for found in explain_dynamic(text)]
    [('a', 'argument')]
    """
    return passes.explain(tree_of(program))


def program_of(tree: Operation) -> Program:
    """Return the program of a syntax tree."""
    return Program(stablehlo.to_graph(tree))


def refine(
    program: Serializable,
    args: str | Sequence[ArgumentLike] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    assertions: bool = True,
) -> Program:
    """Refine a program to given argument sizes: every size that follows from them becomes static.

    Programs that `jax.export` wrote with symbolic sizes are refined as XLA does before it compiles
    them; for others `remove-dynamism` is run. Dynamic values that remain are not an error:
    `explain_dynamic` states the reasons.

    Args:
        program: Any argument that `serialize` takes.
        args: Types of all arguments, as one text with commas or one by one. An integer is the value
            of an argument that is a size. An object with a `shape` gives its sizes. `None` leaves
            an argument unchanged.
        dims: Sizes of the dimension variables of `jax.export`, by name; an alternative to `args`.
        assertions: Check the shape assertions; one about an unknown size stays in the program.

    Raises:
        VerifyError: The program is invalid.
        PassError: The types do not fit, an assertion does not hold, or a function is called with
            different sizes.
        UnknownNameError: A dimension variable does not exist.

    >>> import hloscope
    >>> text = '''
    ... func.func @main(%a: tensor<?x4xf32>) -> tensor<?xf32> {
    ...   %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    ...   %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    ...   %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    ...   return %i : tensor<?xf32>
    ... }'''
    >>> [str(o.type) for o in hloscope.refine(text, "tensor<3x4xf32>").module.entry.root.operands]
    ['f32[3]']
    """
    return program_of(refined(verified_tree(program), args, dims=dims, assertions=assertions).tree)


class Passed(NamedTuple):
    """The result of a command line's passes for one program of a text.

    Attributes:
        program: The program after the passes; `None` if a pass failed.
        diagnostics: The findings of the verifier and of passes.
        failed: The pass that failed; empty if none did.
        fired: For each pass, the number of changes by each rewrite pattern.
        dumps: Pass names with the program's text after each pass that the command line asks to
            print.
    """

    program: Program | None
    diagnostics: list[Diagnostic]
    failed: str = ""
    fired: Sequence[tuple[str, Mapping[str, int]]] = ()
    dumps: Sequence[tuple[str, str]] = ()


def run_passes(source: Source, line: passes.CommandLine) -> Iterator[Passed]:
    """Yield each program of a text after the passes of a command line.

    If the command line asks to verify diagnostics, comments of the text state the expected ones.
    The result then has only those that are unexpected or missing.

    >>> text = "func.func @f(%a: tensor<?xf32>) { return }"
    >>> line = passes.parse_command_line("--stablehlo-refine-arguments=types=tensor<4xf32>")
    >>> [passed.failed for passed in run_passes(Source("f", text), line)]
    ['']
    """
    for piece in programs_in(source, split=line.split):
        found = _passed(piece, line)
        if line.verify_diagnostics:
            wrong = verifier.mismatches(verifier.expectations(piece), found.diagnostics)
            found = found._replace(diagnostics=wrong)
        yield found


def _passed(source: Source, line: passes.CommandLine) -> Passed:
    allow = line.allow_unregistered or not line.verify_diagnostics
    if language_of(source) == "hlo":
        tree = verified_tree(source)
    else:
        try:
            tree = mlir.parse_mlir(
                source.text, source.name, dialects=dialects.DIALECTS, allow_unregistered=allow
            )
        except ParseError as error:
            return Passed(None, [Diagnostic(error.message, error.span, error.rule)])
    wrong = verifier.verify_mlir(tree, allow_unregistered=allow, first_only=True)
    if wrong:
        return Passed(None, wrong)
    dumps: list[tuple[str, str]] = []
    wanted = {full for name in line.print_after for full in passes.passes_of(name)}

    def dump(step: passes.Step, module: Operation) -> None:
        if line.print_after_all or step.name in wanted:
            dumps.append((step.name, text_of(module, line)))

    outcome = passes.run_pipeline(
        tree,
        line.steps,
        allow_unregistered=allow,
        verify_each=line.verify_each,
        after=dump if line.print_after_all or line.print_after else None,
    )
    program = program_of(outcome.module) if outcome.ok else None
    return Passed(program, outcome.diagnostics, outcome.failed, outcome.fired, dumps)


def text_of(module: Operation, line: passes.CommandLine) -> str:
    """Print a module with the command line's options for text."""
    return mlir.print_mlir(
        module, dialects=dialects.DIALECTS, generic=line.generic, locations=line.locations
    )


_DIMENSION: Final = pattern(r"\s*([A-Za-z_]\w*)\s*=\s*(\d{1,18})\s*")


def dims_of(text: str) -> dict[str, int]:
    """Parse sizes such as `b=16,s=128`; return them by name.

    Raises:
        UnknownNameError: The text is not a list of sizes.

    >>> dims_of("b=16, s=128")
    {'b': 16, 's': 128}
    """
    found: dict[str, int] = {}
    for piece in text.split(","):
        match = _DIMENSION.fullmatch(piece)
        if match is None:
            raise UnknownNameError(f"`{piece.strip()}` gives no size: write `b=16,s=128`")
        if match[1] in found:
            raise UnknownNameError(f"`{match[1]}` is given twice")
        found[match[1]] = int(match[2])
    return found


# --------------------------------------------------------------------------------------------------
# Inferred and declared types of the results of every op.


_NO_TYPING: Final = ("func.func", "builtin.module")


class InferredTypes(NamedTuple):
    """The types of all ops of a text.

    Attributes:
        rows: One row for each op that has results.
        spell: Function that writes a type in the text's language.
        answers: Returns the text with ops of the dialect `hlo_test_infer` replaced by results;
            `None` if the text has none.
    """

    rows: Iterator[OpTypes]
    spell: Callable[[Type], str]
    answers: Callable[[], str] | None = None


def types_of(source: Source, *, split: bool = False) -> InferredTypes:
    """Infer the types of the results of every op of a text.

    Args:
        source: The text.
        split: StableHLO: the text has several programs, separated by `// -----`.

    Raises:
        ParseError: The text cannot be parsed.

    >>> text = "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }"
    >>> found = types_of(Source("one", text))
    >>> [(row.name, [found.spell(type_) for type_ in row.inferred]) for row in found.rows]
    [('b', ['f32[2]'])]
    """
    if language_of(source) == "hlo":
        return InferredTypes(rows_of_hlo(source), print_type)
    pieces = pieces_of(source, split=split)
    modules = [parse_mlir(text, source.name, dialects=DIALECTS) for text in pieces]
    rows = (row for module in modules for row in rows_of_tree(module))

    def answers() -> str:
        return joined(
            print_mlir(run_inference_tests(module), dialects=DIALECTS) for module in modules
        )

    asks = any(map(has_inference_tests, modules))
    return InferredTypes(rows, type_text, answers if asks else None)


def rows_of_tree(module: Operation) -> Iterator[OpTypes]:
    """Yield a row for each op with results of a StableHLO program."""
    for operation in module.walk():
        if operation.results and operation.source and operation.name not in _NO_TYPING:
            found = inferred_types(operation)
            names = dict.fromkeys(f"%{value.name}" for value in operation.results)
            declared = tuple([value.type for value in operation.results])
            name = ", ".join(names)
            yield OpTypes(operation.span, name, operation.name, found.types, declared, found.error)


def rows_of_hlo(source: Source) -> Iterator[OpTypes]:
    """Yield a row for each instruction of an HLO module except parameters."""
    module = parse_hlo(source.text, name=source.name, strict=True)
    opcode_of = opcodes()
    # Inference depends only on the kind (op, operand types): large modules repeat few kinds. Errors
    # name their instruction, so they are not cached.
    known: dict[CheckKey, tuple[Type, ...] | None] = {}
    for ins in (ins for computation in module for ins in computation):
        if isinstance(ins.op, Parameter):
            continue
        kind, error = check_key(ins), None
        if kind not in known:
            try:
                follows = inferred(ins)
                known[kind] = None if follows is None else (follows,)
            except HloscopeError as refused:
                error = refused
        types = None if error else known[kind]
        yield OpTypes(ins.span, ins.name, opcode_of(ins), types, (ins.type,), error)
