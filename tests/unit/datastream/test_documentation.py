"""The examples in the pages about streams run as printed."""

import re
import sys
import types
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["connected-streams", "evictors-and-delta-triggers"])
def test_the_examples_of_a_page(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """Users' first programs, copied from the documentation, would contain its mistakes."""
    module = types.ModuleType(page.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    text = (DOCS / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), vars(module))
