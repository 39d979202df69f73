"""Results as rows with typed columns, for pandas, Arrow and Polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from hloscope.display.pages import Shown
from hloscope.errors import UnsupportedError
from hloscope.extras import library_of

Kind: TypeAlias = Literal["string", "int64", "double", "bool"]
"""Type of a column, as Arrow calls it; every column may have missing values."""
Columns: TypeAlias = Mapping[str, Kind]
_PANDAS: Final = {"string": "string", "int64": "Int64", "double": "Float64", "bool": "boolean"}
_POLARS: Final = {"string": "String", "int64": "Int64", "double": "Float64", "bool": "Boolean"}
_LARGEST: Final = (1 << 63) - 1


class Tabular(Shown):
    """A result that is also a table, with equal rows and columns in every table library.

    A class states its columns in `columns` and gives one mapping for each row in `records`.
    """

    __slots__ = ()

    @property
    def columns(self) -> Columns:
        """Name and type of each column."""
        raise NotImplementedError

    def records(self) -> Iterable[Mapping[str, Any]]:
        """The rows as mappings by column name; unknown values are `None` or left out."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`.

        Raises:
            InputError: pyarrow is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        arrow = library_of("tables", "pyarrow", "Arrow tables")
        makers = {"string": arrow.string, "int64": arrow.int64}
        makers |= {"double": arrow.float64, "bool": arrow.bool_}
        schema = arrow.schema([(name, makers[kind]()) for name, kind in self.columns.items()])
        return arrow.table(self._values(), schema=schema)

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`, with nullable types.

        Raises:
            InputError: pandas is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        pandas = library_of("tables", "pandas", "data frames")
        values = self._values()
        series = {n: pandas.array(values[n], _PANDAS[kind]) for n, kind in self.columns.items()}
        return pandas.DataFrame(series)

    def to_polars(self) -> Any:
        """The rows as a `polars.DataFrame`.

        Raises:
            InputError: Polars is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        polars = library_of("tables", "polars", "data frames of Polars")
        schema = {name: getattr(polars, _POLARS[kind]) for name, kind in self.columns.items()}
        return polars.DataFrame(self._values(), schema=schema)

    def _values(self) -> dict[str, list[Any]]:
        """The values of each column, converted for its type."""
        columns = self.columns
        found: dict[str, list[Any]] = {name: [] for name in columns}
        for record in self.records():
            for name, kind in columns.items():
                value = record.get(name)
                if kind == "int64" and value is not None and abs(value) > _LARGEST:
                    raise UnsupportedError(f"`{name}` is {value}, which does not fit into 64 bits")
                found[name].append(value)
        return found
