"""Methods of expressions whose values are texts of JSON, and the choices that they take."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Self

from penstock.table.composing.making import Making, term_of
from penstock.table.composing.sql_text import type_text
from penstock.table.composing.terms import TemplateTerm, Term, TextTerm

if TYPE_CHECKING:
    from penstock.table.types import DataType


class JsonType(enum.Enum):
    """Kinds of JSON for `is_json`."""

    VALUE = 0
    SCALAR = 1
    ARRAY = 2
    OBJECT = 3


class JsonExistsOnError(enum.Enum):
    """Results of `json_exists` for invalid JSON."""

    TRUE = 0
    FALSE = 1
    UNKNOWN = 2
    ERROR = 3


class JsonValueOnEmptyOrError(enum.Enum):
    """Results of `json_value` for a path without a value, and for invalid JSON."""

    NULL = 0
    ERROR = 1
    DEFAULT = 2


class JsonQueryWrapper(enum.Enum):
    """Whether `json_query` puts its result into an array."""

    WITHOUT_ARRAY = 0
    CONDITIONAL_ARRAY = 1
    UNCONDITIONAL_ARRAY = 2


class JsonQueryOnEmptyOrError(enum.Enum):
    """Results of `json_query` for a path without a value, and for invalid JSON."""

    NULL = 0
    EMPTY_ARRAY = 1
    EMPTY_OBJECT = 2
    ERROR = 3


class JsonOnNull(enum.Enum):
    """What `json_object` and `json_array` do with NULL."""

    NULL = 0
    ABSENT = 1


def _words(choice: enum.Enum) -> str:
    return choice.name.replace("_", " ")


class JsonMethods(Making):
    """Methods of expressions whose values are texts of JSON."""

    def is_json(self, json_type: JsonType | None = None) -> Self:
        """Return whether the text is JSON, of a kind."""
        return self._made("({} IS JSON)" if json_type is None else f"({{}} IS JSON {json_type.name})")

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Self:
        """Return whether there is a value at a path."""
        behavior = "" if on_error is None else f" {on_error.name} ON ERROR"
        return self._made(f"JSON_EXISTS({{}}, {{}}{behavior})", path)

    def json_value(
        self,
        path: str,
        returning_type: DataType | None = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Self:
        """Return the value at a path, as a text or of another type."""
        kind = "STRING" if returning_type is None else type_text(returning_type.logical)
        arguments: list[Term] = [self.term, term_of(path), TextTerm(kind)]
        template = "JSON_VALUE({}, {} RETURNING {}"
        for choice, default, when in (
            (on_empty, default_on_empty, "EMPTY"),
            (on_error, default_on_error, "ERROR"),
        ):
            if choice is JsonValueOnEmptyOrError.DEFAULT:
                template += f" DEFAULT {{}} ON {when}"
                arguments.append(term_of(default))
            else:
                template += f" {choice.name} ON {when}"
        return self._of_term(TemplateTerm(template + ")", tuple(arguments)))

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Self:
        """Return the JSON at a path, as a text."""
        wrapper = {
            JsonQueryWrapper.WITHOUT_ARRAY: "WITHOUT WRAPPER",
            JsonQueryWrapper.CONDITIONAL_ARRAY: "WITH CONDITIONAL WRAPPER",
            JsonQueryWrapper.UNCONDITIONAL_ARRAY: "WITH UNCONDITIONAL WRAPPER",
        }[wrapping_behavior]
        behavior = f"{_words(on_empty)} ON EMPTY {_words(on_error)} ON ERROR"
        return self._made(f"JSON_QUERY({{}}, {{}} {wrapper} {behavior})", path)

    def json_quote(self) -> Self:
        """Return the text as a string of JSON."""
        return self._called("JSON_QUOTE")

    def json_unquote(self) -> Self:
        """Return the text of a string of JSON."""
        return self._called("JSON_UNQUOTE")
