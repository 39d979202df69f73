"""Types, layouts, and the graph of instructions that all front ends produce."""

from hloscope.ir.arrays import (
    Array as Array,
    Value as Value,
    numpy_dtype as numpy_dtype,
)
from hloscope.ir.by_op import ByOp as ByOp
from hloscope.ir.called import (
    CalledValue as CalledValue,
    called_value as called_value,
    uncalled as uncalled,
)
from hloscope.ir.floats import (
    FORMATS as FORMATS,
    decode as decode,
    encode as encode,
    format_float as format_float,
)
from hloscope.ir.graph import (
    WIDE as WIDE,
    Body as Body,
    Computation as Computation,
    Instruction as Instruction,
    Module as Module,
    captured as captured,
    captures as captures,
    of_last as of_last,
    operand_type_ids as operand_type_ids,
    value_types as value_types,
)
from hloscope.ir.literal import (
    MOST_WRITTEN as MOST_WRITTEN,
    ComputedLiteral as ComputedLiteral,
    Literal as Literal,
)
from hloscope.ir.op import (
    Callee as Callee,
    IncompatibleTypesError as IncompatibleTypesError,
    InferenceError as InferenceError,
    NotInferredError as NotInferredError,
    Op as Op,
    Signature as Signature,
    defaults_of as defaults_of,
)
from hloscope.ir.sizes import (
    Bytes as Bytes,
    array_bytes as array_bytes,
    four_digits as four_digits,
    padded_elements as padded_elements,
    size_text as size_text,
    storage_bits as storage_bits,
    tiled_sizes as tiled_sizes,
)
from hloscope.ir.types import (
    ELEMENT_TYPES as ELEMENT_TYPES,
    BufferType as BufferType,
    DialectType as DialectType,
    Dims as Dims,
    ElementType as ElementType,
    FunctionType as FunctionType,
    FutureType as FutureType,
    KnownTensor as KnownTensor,
    Layout as Layout,
    OpaqueType as OpaqueType,
    QuantizedType as QuantizedType,
    TensorType as TensorType,
    TokenType as TokenType,
    TupleType as TupleType,
    Type as Type,
    UnrankedTensorType as UnrankedTensorType,
    VectorType as VectorType,
    compatible as compatible,
    compatible_elements as compatible_elements,
)
from hloscope.ir.views import (
    Uses as Uses,
    inside_out as inside_out,
    neighbourhood as neighbourhood,
    to_networkx as to_networkx,
    topological_order as topological_order,
    users as users,
)
from hloscope.ir.written import (
    Written as Written,
    backend_config as backend_config,
    frontend_attributes as frontend_attributes,
    value_of as value_of,
)
