"""Verification by Shardy's rules: meshes, shardings, manual computations, collectives.

The checks of an op read the meshes of the module, the manual computations around the op and the
shardings of its operands. So they run in a traversal of their own, after `verify_mlir`'s.

Source: Shardy `shardy/dialect/sdy/ir/verifiers.cc`; jaxlib's verdicts in the conformance data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import TensorType, Type
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    Block,
    DictAttr,
    IntegerAttr,
    Operation,
    StructAttr,
    SymbolAttr,
    Value,
    type_text,
)
from hloscope.mlir.dialects import mesh_of
from hloscope.ops import Mesh
from hloscope.verifier.shardy.collectives import (
    AXES,
    MANUAL,
    WITHOUT_SHARDING,
    bound_axis,
    check_collective,
    check_local,
    manual_axes,
    own_axes,
)
from hloscope.verifier.shardy.shardings import (
    PER_VALUE,
    SHARDING,
    Grid,
    Sharding,
    check_mesh,
    check_rule,
    check_sharding,
    is_one_of,
    sharding_of,
    shardings_of,
    struct_of,
)
from hloscope.verifier.stablehlo.symbols import Symbols, check_isolation
from hloscope.verifier.stablehlo.traits import refuse

Refused: TypeAlias = tuple[Operation, VerifyError]

_PREFIX: Final = "sdy."
_SHARDING, _RULE = "sdy.sharding", "sdy.sharding_rule"
_NAMED: Final = "sdy.named_computation"
_BOTH: Final = 3
"""Value of `allowed_direction`, both, that a propagation barrier must not have."""


def check_shardy(root: Operation, broken: Container[int]) -> Iterator[Refused]:
    """Yield errors about the shardings of `root` and the ops in it, at most one for each op.

    Args:
        root: A module, or any op.
        broken: Identities (`id`) of ops that have an error already; if they are Shardy's, they are
            skipped.
    """
    checker = _Checker(root)
    for operation in root.walk():
        is_own = operation.name.startswith(_PREFIX)
        if not (is_own or operation.name == "func.func" or _has_sharding(operation)):
            continue
        if is_own and id(operation) in broken:
            continue
        try:
            checker.check(operation)
        except VerifyError as error:
            yield operation, error


def _has_sharding(operation: Operation) -> bool:
    return _SHARDING in operation.attributes or _RULE in operation.attributes


class _Checker:
    """The state of one verification: meshes by name, and the number of uses of values.

    The methods that check raise `VerifyError` with Shardy's message for the first violation.
    """

    def __init__(self, root: Operation) -> None:
        self._root = root
        self._symbols = Symbols()
        self._uses: Counter[int] | None = None

    def check(self, operation: Operation) -> None:
        """Check one op.

        Raises:
            VerifyError: The op is invalid; the message is Shardy's, or that of `struct_of`.
        """
        if operation.name == "func.func":
            self._check_function(operation)
            return
        own = _OWN.get(operation.name)
        if own is not None:
            own(self, operation)
        if _SHARDING in operation.attributes and operation.name not in _CARRYING:
            attribute = operation.attributes[_SHARDING]
            if not is_one_of(attribute, *PER_VALUE):
                raise refuse(
                    operation,
                    "should have a sharding attribute of type TensorShardingPerValueAttr",
                )
            found = struct_of(attribute, *PER_VALUE)
            self._check_values(operation, found, operation.result_types, "result ")
        if _RULE in operation.attributes:
            self._check_rule(operation)

    # --- meshes and shardings -----------------------------------------------------------------

    def _grid(self, operation: Operation, sharding: Sharding) -> Grid | None:
        """Return the mesh of a sharding; `None` if its notation is not supported.

        Raises:
            VerifyError: The mesh is not defined, or an inline mesh is invalid.
        """
        mesh = sharding.mesh
        if isinstance(mesh, Mesh):
            check_mesh(mesh)
            return Grid(mesh)
        found = self._symbols.find(operation, SymbolAttr(mesh))
        if found is None or found.name != "sdy.mesh":
            raise VerifyError(f"unknown mesh: @{mesh}")
        return _grid_of(found)

    def _check_one(
        self, operation: Operation, sharding: Sharding | None, type_: Type | None, where: str
    ) -> None:
        """Check one sharding of an op; nothing is checked if it is `None`.

        Args:
            operation: The op.
            sharding: The sharding.
            type_: Type of the sharded value; `None` for an op without results.
            where: Start of messages, such as the name of the result.
        """
        if sharding is None:
            return
        try:
            grid = self._grid(operation, sharding)
            if grid is None:
                return
            check_sharding(sharding, type_, grid)
            # An axis that a computation around the op has made manual is not visible here.
            manual = manual_axes(operation)
            refs = [ref for refs in sharding.dimensions for ref in refs]
            for ref in (*refs, *sharding.replicated, *sharding.unreduced):
                if ref.name in manual:
                    raise bound_axis(ref.name)
        except VerifyError as error:
            raise refuse(operation, where + error.message) from None

    def _check_values(
        self,
        operation: Operation,
        attribute: StructAttr | None,
        types: Sequence[Type],
        where: str,
    ) -> None:
        """Check the shardings of several values of an op.

        Args:
            operation: The op.
            attribute: The attribute with one sharding for each value; `None` if it is missing.
            types: Types of the values.
            where: Start of messages.
        """
        if attribute is None:
            return
        shardings = shardings_of(attribute)
        # An op without results may have one sharding, if it names a device or divides nothing.
        if not types and len(shardings) == 1:
            (only,) = shardings
            if only is None or only.is_replicated or self._is_maximal(operation, only):
                self._check_one(operation, only, None, f"{where}0 - ")
                return
        if len(shardings) != len(types):
            raise refuse(
                operation,
                f"{where}shardings don't match number of values: {len(shardings)} shardings vs"
                f" {len(types)} values",
            )
        for i, (sharding, type_) in enumerate(zip(shardings, types, strict=True)):
            place = f"{where}- " if len(types) == 1 else f"{where}{i} - "
            self._check_one(operation, sharding, type_, place)

    def _is_maximal(self, operation: Operation, sharding: Sharding) -> bool:
        try:
            grid = self._grid(operation, sharding)
        except VerifyError:
            return True
        return grid is None or grid.is_maximal

    def _check_function(self, function: Operation) -> None:
        """Check the shardings of a function's arguments and results."""
        block = function.blocks[0] if function.blocks else None
        declared = function.get("function_type")
        signature = getattr(getattr(declared, "type", None), "inputs", None)
        types = {
            "arg_attrs": _types(block.arguments) if block else signature or (),
            "res_attrs": getattr(getattr(declared, "type", None), "results", ()),
        }
        for key, what in (("arg_attrs", "arg"), ("res_attrs", "result")):
            for i, attribute in enumerate(_argument_attributes(function, key)):
                if attribute is None or i >= len(types[key]):
                    continue
                if not is_one_of(attribute, *SHARDING):
                    raise refuse(
                        function,
                        f"{what} {i} - should have a sharding attribute of type TensorShardingAttr",
                    )
                found = struct_of(attribute, *SHARDING)
                sharding = None if found is None else sharding_of(found)
                self._check_one(function, sharding, types[key][i], f"{what} {i} - ")

    def _check_rule(self, operation: Operation) -> None:
        """Check the sharding rule in an op's attributes against the op's types."""
        attribute = operation.attributes[_RULE]
        if not is_one_of(attribute, "op_sharding_rule"):
            raise refuse(
                operation,
                "should have a sharding rule attribute of type OpShardingRuleAttr for attr named"
                f" '{_RULE}'",
            )
        rule = struct_of(attribute, "op_sharding_rule")
        if rule is None:
            return
        try:
            check_rule(rule, operation.operand_types, operation.result_types)
        except VerifyError as error:
            raise refuse(operation, error.message) from None

    # --- ops of the dialect -------------------------------------------------------------------

    def check_mesh_op(self, operation: Operation) -> None:
        """Check that the mesh of `sdy.mesh` is valid."""
        mesh = _mesh_in(operation)
        if mesh is None:
            return
        try:
            check_mesh(mesh)
        except VerifyError as error:
            raise VerifyError(f"custom op 'sdy.mesh' {error.message}") from None

    def check_sharded(self, operation: Operation) -> None:
        """Check the sharding of `sdy.sharding_constraint` or `sdy.reshard`."""
        self._check_one(operation, _sharding(operation, "sharding"), operation.result.type, "")

    def check_barrier(self, operation: Operation) -> None:
        """Check that `sdy.propagation_barrier` does not allow both directions."""
        direction = operation.get("allowed_direction")
        if isinstance(direction, IntegerAttr) and direction.value == _BOTH:
            raise refuse(
                operation,
                "cannot specify `BOTH` as the direction. Not blocking propagation direction makes"
                " the op redundant.",
            )

    def check_edge(self, operation: Operation) -> None:
        """Check the type, the operand and the sharding of `sdy.data_flow_edge`."""
        name, (read,) = operation.name, operation.operands
        word = "input" if name == "sdy.data_flow_edge" else "operand"
        type_ = operation.result.type
        if not isinstance(type_, TensorType) or not type_.is_static:
            raise refuse(
                operation,
                f"expected {name} to have a static-shaped result. type: '{type_text(type_)}'",
            )
        # The edge is between the value and all its users, so that the value has no other user.
        if self._uses_of(read) != 1:
            raise refuse(operation, f"expected {word} of {name} to have a single user")
        owner = read.owner
        if isinstance(owner, Operation):
            is_call = owner.name == "func.call"
            if name == "sdy.func_data_flow_edge" and not is_call:
                raise refuse(operation, f"expected operand of {name} to be a result of call op.")
            # Other ops of the dialect carry their sharding themselves.
            if owner.name.startswith(_PREFIX) and owner.name not in (_NAMED, MANUAL):
                raise refuse(
                    operation,
                    f"expected {word} of {name} to not be defined by an SdyDialect op (other than"
                    " an sdy.named_computation).",
                )
        if operation.get("sharding") is not None:
            self._check_one(operation, _sharding(operation, "sharding"), type_, "")

    def check_named(self, operation: Operation) -> None:
        """Check that types and shardings of `sdy.named_computation` agree with its region."""
        _check_end(operation)
        check_isolation(operation)
        block = operation.blocks[0]
        returned = _returned(block)
        for inner, outer, a, b in (
            (block.arguments, operation.operands, "block argument", "operand"),
            (returned, operation.results, "returned value", "result"),
        ):
            if len(inner) != len(outer):
                raise VerifyError(
                    f"number of {a}s must match the number of {b}s: {len(inner)} != {len(outer)}"
                )
            for i, (x, y) in enumerate(zip(_types(inner), _types(outer), strict=True)):
                if x != y:
                    raise VerifyError(
                        f"expected the type of the {i}'th {a} to match the type of the"
                        f" corresponding {b}: '{type_text(x)}' vs '{type_text(y)}'"
                    )
        for key, values in (
            ("in_shardings", operation.operands),
            ("out_shardings", operation.results),
        ):
            shardings = struct_of(operation.get(key), *PER_VALUE)
            self._check_values(operation, shardings, _types(values), f"{key} ")

    def check_manual(self, operation: Operation) -> None:
        """Check `sdy.manual_computation`.

        Its manual axes are not those of a manual computation around it. Numbers and local types of
        operands and results in the region agree with the shardings. All shardings have the same
        mesh, which has the manual axes.

        Raises:
            VerifyError: A check fails; the message is Shardy's.
        """
        _check_end(operation)
        check_isolation(operation)
        names = own_axes(operation)
        around = manual_axes(operation)
        for name in names:
            if name in around:
                raise refuse(operation, bound_axis(name).message)
        # The region is compared with the shardings: its local types follow from them.
        block = operation.blocks[0]
        sides = {
            key: struct_of(operation.get(key), *PER_VALUE)
            for key in ("in_shardings", "out_shardings")
        }
        grids: list[Grid] = []
        for what, key, outer, inner in (
            ("operand", "in_shardings", operation.operands, block.arguments),
            ("result", "out_shardings", operation.results, _returned(block)),
        ):
            # Without a readable attribute the local types are unknown.
            attribute = sides[key]
            if attribute is None:
                return
            self._check_values(operation, attribute, _types(outer), f"{what} ")
            if len(outer) != len(inner):
                raise refuse(
                    operation,
                    f"number of op {what}s and region {what}s must match. Op has {len(outer)} op"
                    f" {what}s and {len(inner)} region {what}s",
                )
            pairs = zip(shardings_of(attribute), _types(outer), _types(inner), strict=False)
            for i, (sharding, whole, local) in enumerate(pairs):
                grid = None if sharding is None else self._grid(operation, sharding)
                if sharding is None or grid is None:
                    continue
                grids.append(grid)
                check_local(operation, what, i, sharding, grid, whole, local, names)
        self._check_common_mesh(operation, names, grids)

    def _check_common_mesh(
        self, operation: Operation, names: Sequence[str], grids: list[Grid]
    ) -> None:
        """Check that all shardings of a manual computation have one mesh, with all manual axes.

        `names` are the manual axes, `grids` the meshes of the shardings.
        """
        meshes = [grid for grid in grids if grid.mesh.axes]
        if any(grid.mesh != meshes[0].mesh for grid in meshes) and names:
            raise refuse(
                operation,
                "all in and out shardings must be bound to the same mesh or an empty mesh.",
            )
        known = (meshes or grids)[:1]
        for name in names:
            if known and name not in known[0].sizes:
                raise refuse(operation, f'unknown manual axis: "{name}"')

    def check_collective_op(self, operation: Operation) -> None:
        """Check the shardings and axes of a Shardy collective."""
        name, (read,) = operation.name, operation.operands
        taken, is_known = self._sharding_of_value(read)
        if taken is None and is_known and name not in WITHOUT_SHARDING:
            raise refuse(operation, "collective on operand without sharding")
        made = _sharding(operation, "out_sharding")
        type_ = operation.result.type
        self._check_one(operation, made, type_, "")
        if made is None or not is_known:
            return
        if taken is None:
            rank = len(made.dimensions)
            taken = Sharding(made.mesh, ((),) * rank, (True,) * rank, (None,) * rank, (), (), "")
        key = AXES[name]
        kinds = ("list_of_axis_ref_lists", "axis_ref_list", "all_to_all_param_list")
        axes = struct_of(operation.get(key), *kinds) if key else None
        try:
            grids = self._grid(operation, taken), self._grid(operation, made)
            if grids[0] is None or grids[1] is None:
                return
            check_sharding(taken, read.type, grids[0])
        except VerifyError:
            return  # the operand's sharding is wrong where it is written
        try:
            check_collective(name, axes, taken, made, (grids[0], grids[1]))
        except VerifyError as error:
            raise refuse(operation, error.message) from None

    # --- values -------------------------------------------------------------------------------

    def _sharding_of_value(self, value: Value) -> tuple[Sharding | None, bool]:
        """Return the sharding of a value, and whether it could be determined (is known).

        A value that has no sharding is known: `(None, True)`. Arguments of loops are not known: the
        loop, which is not inspected, has their sharding.

        Source: Shardy `getSharding`.
        """
        owner = value.owner
        try:
            if isinstance(owner, Block):
                return self._sharding_of_argument(value, owner)
            if owner is None:
                return None, False
            if owner.name in _CARRYING:
                attribute = owner.get(_CARRYING[owner.name])
                return _known(struct_of(attribute, *SHARDING) if attribute else None, attribute)
            per_value = owner.get("out_shardings") if owner.name in (MANUAL, _NAMED) else None
            if owner.name in _EDGES:
                return None, False
            attribute = per_value or owner.attributes.get(_SHARDING)
            if attribute is None:
                return None, True
            found = struct_of(attribute, *PER_VALUE)
            shardings = [] if found is None else shardings_of(found)
            if value.index >= len(shardings):
                return None, False
            sharding = shardings[value.index]
            return sharding, sharding is not None
        except VerifyError:
            return None, False  # reported where it is written

    def _sharding_of_argument(self, value: Value, block: Block) -> tuple[Sharding | None, bool]:
        """Return the sharding of a block argument, and whether it could be determined.

        The result is `(None, True)` if the argument certainly has none.
        """
        around = block.parent_op
        if around is None:
            return None, False
        if around.name == "func.func":
            attributes = _argument_attributes(around, "arg_attrs")
            attribute = attributes[value.index] if value.index < len(attributes) else None
            return _known(struct_of(attribute, *SHARDING), attribute)
        if around.name not in (MANUAL, _NAMED):
            return None, False
        attribute = around.get("in_shardings")
        found = struct_of(attribute, *PER_VALUE)
        shardings = [] if found is None else shardings_of(found)
        sharding = shardings[value.index] if value.index < len(shardings) else None
        if sharding is None:
            return None, attribute is None
        # Inside a manual computation, values are not divided along its manual axes any more.
        names = own_axes(around) if around.name == MANUAL else ()
        return sharding.without(names), True

    def _uses_of(self, value: Value) -> int:
        # Only edges ask; the uses of all values are counted once, at the first edge.
        if self._uses is None:
            self._uses = Counter(
                id(operand) for operation in self._root.walk() for operand in operation.operands
            )
        return self._uses[id(value)]


def _known(found: StructAttr | None, attribute: object) -> tuple[Sharding | None, bool]:
    """Return the sharding in an attribute, and whether the value's sharding is known.

    Args:
        found: The attribute in parsed form; `None` if it could not be parsed.
        attribute: The attribute; `None` if the value has none, and so no sharding, which is known.
    """
    sharding = None if found is None else sharding_of(found)
    return sharding, sharding is not None or attribute is None


def _check_end(operation: Operation) -> None:
    """Check that the region of a computation op ends in `sdy.return`."""
    block = operation.blocks[0]
    last = block.operations[-1].name if block.operations else "nothing"
    if last != "sdy.return":
        raise refuse(operation, f"expects regions to end with 'sdy.return', found '{last}'")


def _mesh_in(operation: Operation) -> Mesh | None:
    """Return the mesh of an `sdy.mesh` op; `None` if its notation is not supported."""
    structure = struct_of(operation.get("mesh"), "mesh")
    try:
        mesh = None if structure is None else mesh_of(structure)
    except UnsupportedError:
        return None
    return mesh if isinstance(mesh, Mesh) else None


def _grid_of(operation: Operation) -> Grid | None:
    """Return the mesh of an `sdy.mesh` op.

    `None` if it is invalid or its notation is not supported.

    An invalid mesh is reported at the op itself.
    """
    try:
        mesh = _mesh_in(operation)
        if mesh is None:
            return None
        check_mesh(mesh)
    except VerifyError:
        return None
    return Grid(mesh)


def _sharding(operation: Operation, key: str) -> Sharding | None:
    found = struct_of(operation.get(key), *SHARDING)
    return None if found is None else sharding_of(found)


def _argument_attributes(function: Operation, key: str) -> list[Attribute | None]:
    """Return the sharding of each argument or result of a function; `None` where there is none.

    `key` is the function's attribute that has them.
    """
    listed = function.get(key)
    each = listed.elements if isinstance(listed, ArrayAttr) else ()
    return [
        dict(entry.entries).get(_SHARDING) if isinstance(entry, DictAttr) else None
        for entry in each
    ]


def _returned(block: Block) -> Sequence[Value]:
    return block.operations[-1].operands if block.operations else ()


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in values]


_EDGES: Final = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.optimization_barrier"})
"""Ops whose result may be followed by an `sdy.data_flow_edge` with its sharding."""

_CARRYING: Final = {
    "sdy.sharding_constraint": "sharding",
    "sdy.reshard": "sharding",
    "sdy.data_flow_edge": "sharding",
    **dict.fromkeys(AXES, "out_sharding"),
}
"""Attribute with the sharding of the result, by the name of the Shardy op."""

_OWN: Final[dict[str, Callable[[_Checker, Operation], None]]] = {
    "sdy.mesh": _Checker.check_mesh_op,
    "sdy.sharding_constraint": _Checker.check_sharded,
    "sdy.reshard": _Checker.check_sharded,
    "sdy.propagation_barrier": _Checker.check_barrier,
    "sdy.data_flow_edge": _Checker.check_edge,
    "sdy.func_data_flow_edge": _Checker.check_edge,
    "sdy.named_computation": _Checker.check_named,
    "sdy.manual_computation": _Checker.check_manual,
    **dict.fromkeys(AXES, _Checker.check_collective_op),
}
"""Additional check of each Shardy op, by op name."""
