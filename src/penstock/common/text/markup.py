"""Markup made of elements: everything that comes from a job is text in it, never markup."""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | float | None) -> Markup:
    """Build an element. Escapes children that are not Markup; skips children and attributes that are None.

    Names of attributes: `cls` is `class`, an underscore stands for a hyphen.
    """
    given = "".join(
        f' {"class" if name == "cls" else name.replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: str | None) -> Markup:
    """Join elements and texts."""
    return Markup("".join(one if isinstance(one, Markup) else escape(one) for one in children if one is not None))


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int] = (), is_stacked: bool = False
) -> Markup:
    """Build a table. `numbers`: the columns with numbers, which are right-aligned.

    `is_stacked`: on a narrow page each row is a list of its cells, each with its head, instead of being scrolled.
    """

    def cells(tag: str, texts: Sequence[str]) -> Markup:
        kinds = ["number" if index in numbers else None for index in range(len(texts))]
        named = [head if is_stacked and tag == "td" else None for head in heads]
        given = zip(texts, kinds, named, strict=True)
        return joined(*(element(tag, text, cls=kind, data_head=head) for text, kind, head in given))

    head = element("thead", element("tr", cells("th", heads)))
    body = element("tbody", *(element("tr", cells("td", row)) for row in rows))
    return element("div", element("table", head, body), cls="scrolled stacked" if is_stacked else "scrolled")
