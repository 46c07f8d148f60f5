import pickle
import subprocess
import sys

import pytest

from penstock.api.output_tag import OutputTag, tags_exist
from penstock.common import Types


def test_tags_are_equal_by_id() -> None:
    """A side output read with a newly created tag would be empty."""
    assert OutputTag("late") == OutputTag("late", Types.STRING())
    assert {OutputTag("late"): 1}[OutputTag("late")] == 1 and OutputTag("a") != OutputTag("b")
    restored = pickle.loads(pickle.dumps(OutputTag("late", [Types.LONG()])))
    assert restored.type_info == Types.ROW([Types.LONG()]) and OutputTag("x").type_info == Types.PICKLED_BYTE_ARRAY()


def test_wrong_ids_and_types_are_refused() -> None:
    """Two unnamed side outputs would be mixed."""
    with pytest.raises(ValueError, match="must not be empty"):
        OutputTag("")
    with pytest.raises(TypeError, match="must be a str"):
        OutputTag(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="TypeInformation"):
        OutputTag("a", int)  # type: ignore[arg-type]


def test_a_process_knows_of_tags_it_only_received() -> None:
    """Workers, which receive tags by unpickling, would emit side outputs as plain tuples."""
    assert OutputTag("a") and tags_exist()
    program = (
        "import pickle\nfrom penstock.api.output_tag import tags_exist\nassert not tags_exist()\n"
        f"pickle.loads({pickle.dumps(OutputTag('a'))!r})\nassert tags_exist()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
