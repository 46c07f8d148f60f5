"""Classes and functions of the API as text: their signature, docstring and members, from the imported objects."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

_WIDTH = 100
_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_ADDRESS = re.compile(r"<.* at 0x[0-9a-f]+>|<object .*>")


def described(name: str, shown: Any, inherited: list[str]) -> Iterator[str]:
    """A heading, the signature, the docstring, and a table of public members. `inherited`: further members to show."""
    yield from (f"### {name}", "")
    if callable(shown):
        yield from ("```py", *textwrap.wrap(f"{name}{_signature(shown)}", 96, subsequent_indent="    "), "```", "")
    yield from paragraphs(_own_docstring(shown))
    if isinstance(shown, type):
        rows = list(_members(shown, inherited))
        if rows:
            yield from ("| member | |", "| --- | --- |", *rows, "")


def _own_docstring(shown: Any) -> str:
    text = vars(shown).get("__doc__") if isinstance(shown, type) else getattr(shown, "__doc__", None)
    # Of a dataclass without a docstring Python writes the signature, which is shown already.
    if not isinstance(text, str) or (isinstance(shown, type) and text.startswith(f"{shown.__name__}(")):
        return ""
    if not (inspect.isroutine(shown) or isinstance(shown, type)) and text == type(shown).__doc__:
        return ""
    return inspect.cleandoc(text)


def paragraphs(text: str) -> Iterator[str]:
    """A text in lines that fit the repository's pages; lists and what is indented keep theirs."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if any(line.startswith((" ", "-", "*")) for line in lines):
            yield from (*(f"    {line}" for line in lines), "")
        elif lines:
            yield from (*textwrap.wrap(" ".join(lines), _WIDTH, break_long_words=False, break_on_hyphens=False), "")


def _members(shown: type, inherited: list[str]) -> Iterator[str]:
    for name in [name for name in vars(shown) if not name.startswith("_")] + inherited:
        member = inspect.getattr_static(shown, name)
        function = getattr(member, "__func__", member)
        if isinstance(function, property):
            head, text = name, function.__doc__
        elif inspect.isfunction(function):
            head, text = (
                f"{name}{_signature(function, is_method=not isinstance(member, staticmethod))}",
                function.__doc__,
            )
        else:
            continue
        described = " ".join(inspect.cleandoc(text or "").split()).replace("|", "\\|")
        yield f"| `{head}` | {described} |".replace("`" + head + "`", "`" + head.replace("|", "\\|") + "`")


def _signature(function: Any, is_method: bool = False) -> str:
    try:
        signature = inspect.signature(function)
    except NameError:
        # A Struct whose annotations name what is imported for type checkers only.
        return f"({', '.join(function.__struct_fields__)})"
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())[1 if is_method else 0 :]
    shown: list[str] = []
    star = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
        star |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        prefix = _STARS.get(parameter.kind, "")
        text = prefix + parameter.name
        has_type = parameter.annotation is not parameter.empty
        if has_type:
            text += f": {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            default = _ADDRESS.sub("...", repr(parameter.default))
            text += f" = {default}" if has_type else f"={default}"
        shown.append(text)
    result = "" if signature.return_annotation is signature.empty else f" -> {_type(signature.return_annotation)}"
    return f"({', '.join(shown)}){result}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
