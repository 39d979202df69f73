"""MLIR: operations, attributes, types, locations, their text, and the ops of dialects."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.mlir.constants import (
        MOST_SPLAT as MOST_SPLAT,
        MlirLiteral as MlirLiteral,
        attribute_text as attribute_text,
        dense_sizes as dense_sizes,
        dense_values as dense_values,
        expanded as expanded,
        python_value as python_value,
    )
    from hloscope.mlir.definitions import (
        TUPLES as TUPLES,
        AttributeSlot as AttributeSlot,
        Definition as Definition,
        Dialect as Dialect,
        Dialects as Dialects,
        Older as Older,
        RegionSlot as RegionSlot,
        Slot as Slot,
        Suggestion as Suggestion,
    )
    from hloscope.mlir.ir import (
        NO_ATTRIBUTES as NO_ATTRIBUTES,
        ArrayAttr as ArrayAttr,
        Attribute as Attribute,
        Block as Block,
        BoolAttr as BoolAttr,
        DenseArrayAttr as DenseArrayAttr,
        DenseAttr as DenseAttr,
        DictAttr as DictAttr,
        EnumAttr as EnumAttr,
        FloatAttr as FloatAttr,
        IntegerAttr as IntegerAttr,
        Operation as Operation,
        Region as Region,
        ResourceTable as ResourceTable,
        SourceModule as SourceModule,
        StringAttr as StringAttr,
        StructAttr as StructAttr,
        SymbolAttr as SymbolAttr,
        TypeAttr as TypeAttr,
        UnitAttr as UnitAttr,
        Value as Value,
        VerbatimAttr as VerbatimAttr,
        equality_key as equality_key,
        function_type as function_type,
        illegal as illegal,
        resources_of as resources_of,
        string_of as string_of,
    )
    from hloscope.mlir.literals import (
        array_text as array_text,
        dense_text as dense_text,
        elements as elements,
        from_array as from_array,
        to_array as to_array,
    )
    from hloscope.mlir.locations import (
        UNKNOWN as UNKNOWN,
        CallSiteLoc as CallSiteLoc,
        FileLoc as FileLoc,
        FusedLoc as FusedLoc,
        LazyLoc as LazyLoc,
        Location as Location,
        NameLoc as NameLoc,
        resolve_location as resolve_location,
    )
    from hloscope.mlir.text.asm import (
        Argument as Argument,
        AsmParser as AsmParser,
        AsmPrinter as AsmPrinter,
        Form as Form,
        OpAsmParser as OpAsmParser,
        State as State,
        UnfitError as UnfitError,
        Use as Use,
    )
    from hloscope.mlir.text.form_language import (
        Context as Context,
        Directive as Directive,
        FormState as FormState,
        Need as Need,
        Part as Part,
        attribute_part as attribute_part,
        compile_form as compile_form,
        resolve as resolve,
    )
    from hloscope.mlir.text.lexer import (
        MARKER as MARKER,
        is_mlir as is_mlir,
        plain_name as plain_name,
        split_input as split_input,
        unquoted as unquoted,
    )
    from hloscope.mlir.text.numbering import Names as Names, location_text as location_text
    from hloscope.mlir.text.parser import (
        parse_attribute as parse_attribute,
        parse_mlir as parse_mlir,
        parse_type as parse_type,
    )
    from hloscope.mlir.text.parser_operations import NAME_SCOPES as NAME_SCOPES
    from hloscope.mlir.text.printed import (
        BytecodeModule as BytecodeModule,
        BytecodeOperation as BytecodeOperation,
        has_locations as has_locations,
        name_as_printed as name_as_printed,
    )
    from hloscope.mlir.text.printer import (
        Printer as Printer,
        print_mlir as print_mlir,
        source_printer as source_printer,
    )
    from hloscope.mlir.text.quant import read_type as read_type
    from hloscope.mlir.types import (
        ELEMENTS as ELEMENTS,
        F64 as F64,
        I1 as I1,
        I32 as I32,
        I64 as I64,
        INDEX as INDEX,
        NONE as NONE,
        element_text as element_text,
        integer_type as integer_type,
        is_signless as is_signless,
        quantized as quantized,
        spell as spell,
        type_text as type_text,
        types_text as types_text,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
