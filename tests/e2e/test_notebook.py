"""The notebook of the examples, in a kernel of Jupyter's."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.spark]
NOTEBOOK = Path(__file__).parents[2] / "examples" / "orders_by_city.ipynb"
_SECONDS = 240


class ThisPython(AsyncKernelManager):  # type: ignore[misc]
    """Starts kernels by the interpreter of the tests, whatever kernels are installed for the user."""

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with code after they were run, top to bottom."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = NotebookClient(
        notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}}, km=ThisPython(), kernel_name="python3"
    )
    # Within a test of its own, the kernel would not take what other processes write to its standard error.
    client.execute(env={name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"})
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def displays(cell: Any) -> list[str]:
    return [output.data["text/plain"] for output in cell.outputs if output.output_type == "display_data"]


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def value(cell: Any) -> str:
    (result,) = [output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"]
    return str(result)


def test_results_of_a_cell(cells: list[Any]) -> None:
    """Classes of a notebook would not reach the workers, or results not the notebook."""
    assert value(cells[2]) == "{'Lima': 42, 'Oslo': 20}"
    (line,) = displays(cells[2])
    assert re.fullmatch(r"job [0-9a-f]{8} 'orders by city' finished after .* s: 5 records in, 5 out", line)


def test_what_functions_print(cells: list[Any]) -> None:
    """It would be written to the terminal of the notebook's server, which nobody sees."""
    assert re.search(r"\[total \([12]/2\)\] a large order from Lima", "".join(printed(cell) for cell in cells))


def test_execute_shows_duration_and_id(cells: list[Any]) -> None:
    """With several jobs in a notebook, nobody could tell of which one `penstock logs` is asked."""
    squares = cells[3]
    (job_id,) = re.findall(r"<Job ([0-9a-f]{32}) ran \d+ ms>", value(squares))
    (line,) = displays(squares)

    assert line.startswith(f"job {job_id[:8]} 'squares' finished after ")
    results = re.findall(r"^[12]> (\d+)$", printed(squares), re.MULTILINE)
    assert sorted(map(int, results)) == [1, 4, 9, 16, 25]


def test_a_job_behind_its_cell(cells: list[Any]) -> None:
    """A job that `execute_async` has started would run unseen, and seem to run after it has ended."""
    assert "CANCELED" in value(cells[5])
    (line,) = displays(cells[4])
    assert re.match(r"job [0-9a-f]{8} 'endless' canceled after ", line)
