"""`import pyflink` answered with penstock's modules. In processes of their own: the hook stays once installed."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap

import pytest


def run(program: str) -> subprocess.CompletedProcess[str]:
    program = f"from penstock.common.doors import pyflink_alias\npyflink_alias.install()\n{program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_both_names_are_one_module() -> None:
    """A class imported by one name would not be an instance of itself by the other."""
    result = run(
        "import pyflink.common.constants as ours\nfrom pyflink.common import constants\n"
        "import penstock.common.constants as theirs\nassert ours is constants is theirs\n"
        "print(ours.__name__, ours.__spec__.name)"
    )

    assert result.stdout == "penstock.common.constants penstock.common.constants\n", result.stderr


def test_a_module_that_penstock_lacks_is_an_import_error_that_says_so() -> None:
    """A program that tests whether a module exists would break; a user who misses one would look for it in PyFlink."""
    result = run(
        "try:\n    import pyflink.datastream.connectors.pulsar\nexcept ImportError as error:\n    print(error)"
    )

    assert result.stdout.startswith(
        "penstock has no penstock.datastream.connectors.pulsar to stand for pyflink.datastream.connectors.pulsar: "
    ), result.stderr


def test_of_the_table_api_there_are_the_types_by_which_files_are_described() -> None:
    """PyFlink's own programs for CSV, Parquet and ORC would not run, or others would get no hint."""
    result = run(
        "from pyflink.table import DataTypes\nfrom pyflink.table.types import DataTypes as same\n"
        "from pyflink.common import Types\nassert DataTypes is same\n"
        "row = DataTypes.ROW([DataTypes.FIELD('a', DataTypes.INT()), DataTypes.FIELD('b', DataTypes.ARRAY("
        "DataTypes.STRING()))])\n"
        "assert row.type_information == Types.ROW_NAMED(['a', 'b'], [Types.INT(), Types.LIST(Types.STRING())])\n"
        "try:\n    from pyflink.table import Module\nexcept ImportError as error:\n    print(error)"
    )

    assert "no Module in penstock.table: modules of functions are Java's" in result.stdout, result


@pytest.mark.parametrize(
    ("name", "instead"),
    [("create_java_function", "`udf`"), ("execute_plan", "EXECUTE PLAN"), ("register_catalog", "CREATE")],
)
def test_methods_that_the_table_api_lacks_name_another_way(name: str, instead: str) -> None:
    """A user of PyFlink would find no way from calls that penstock does not have."""
    from penstock.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with pytest.raises(AttributeError, match=f"has no {name}: .*{instead}"):
        getattr(tables, name)


@pytest.mark.thorough
def test_a_module_that_is_missing_says_what_to_do() -> None:
    """A user who moves a program from PyFlink would have to search for the replacement of a module."""
    program = """
        for name in ("datastream.connectors.kinesis", "datastream.state_backend", "table.catalog", "fn_execution"):
            try:
                __import__(f"pyflink.{name}")
            except ImportError as error:
                print(error)
    """
    kinesis, backends, table, other = run(textwrap.dedent(program)).stdout.splitlines()

    assert "no such connector; docs/how-to/own-source.md" in kinesis
    assert "set `state.backend.type`" in backends
    assert "the catalog is changed by statements of SQL" in table
    assert other == "penstock has no penstock.fn_execution to stand for pyflink.fn_execution"


def test_other_packages_are_left_alone_and_a_second_install_changes_nothing() -> None:
    """`pyflink_extras` of the user's own would not be found."""
    result = run(
        "import sys\nhooks = len(sys.meta_path)\npyflink_alias.install()\nassert len(sys.meta_path) == hooks\n"
        "assert pyflink_alias.is_installed()\n"
        "try:\n    import pyflink_extras\nexcept ImportError as error:\n    print(error)"
    )

    assert result.stdout == "No module named 'pyflink_extras'\n", result.stderr


@pytest.mark.parametrize("name", ["table.catalog", "datastream.connectors.pulsar"])
def test_penstocks_own_name_of_a_missing_module_says_what_to_do(name: str) -> None:
    """A user who has replaced pyflink by penstock in the imports, as the manual says, would get no hint."""
    with pytest.raises(ModuleNotFoundError, match=rf"penstock has no module penstock\.{name}: .+"):
        importlib.import_module(f"penstock.{name}")


def test_an_unknown_name_is_an_error_as_usual() -> None:
    """A misspelt module would be taken for one of PyFlink's."""
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'penstock\.datastraem'"):
        importlib.import_module("penstock.datastraem")
    assert importlib.util.find_spec("penstock.datastraem") is None
