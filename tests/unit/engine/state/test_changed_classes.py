"""Values of users' classes in state, read by a program whose classes have changed."""

from __future__ import annotations

import enum
import io
import pickle
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.engine.state.changed_classes import CONTAINERS, KINDS, MODULE, PLACES, fields_of, source, use

from penstock.common.errors import CheckpointError
from penstock.common.types import Row
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.state.pickles import dumps
from penstock.engine.state.unpickling import StateUnpickler


@pytest.fixture(autouse=True)
def _program() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


def restored(data: bytes) -> Any:
    """Return the results of both ways of reading: restores, and entries of RocksDB."""
    one, other = StateUnpickler(io.BytesIO(data)).load_complete(), pickle.loads(data)
    assert type(one) is type(other)
    return one


def stored(kind: str, *fields: str, **values: Any) -> bytes:
    return dumps(use(source(kind, *fields)).Thing(**values))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_fields_gained_anywhere_have_their_defaults(kind: str, place: str) -> None:
    """Values would move to other fields, or a field would be missing in the middle of a run."""
    program = use(CONTAINERS, source(kind, "number: int", "paid: int = 0"))
    put, found = PLACES[place]
    data = dumps(put(program, program.Thing(number=7, paid=250)))
    now = use(CONTAINERS, source(kind, "number: int", "tip: int = -1", "notes: Any = LIST", "paid: int = 0")).Thing
    thing = found(restored(data))
    assert type(thing) is now
    assert fields_of(thing, "number", "tip", "paid") == [7, -1, 250]
    assert list(thing.notes) == []
    # It is stored again as any other.
    assert found(restored(dumps(put(sys.modules[MODULE], thing)))) == thing


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "NamedTuple" not in kind])
def test_lists_that_are_gained_are_not_shared(kind: str) -> None:
    """An element that is added to one value would be in all others."""
    program = use(source(kind, "number: int"))
    data = dumps([program.Thing(number=1), program.Thing(number=2)])
    use(source(kind, "number: int", "notes: Any = LIST"))
    one, other = restored(data)
    assert one.notes == other.notes == [] and one.notes is not other.notes


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_gained_without_a_default_are_refused(kind: str) -> None:
    """An AttributeError hours later would not say that it is about old state."""
    data = stored(kind, "number: int", "paid: int", number=7, paid=250)
    use(source(kind, "number: int", "place: str", "paid: int"))
    for read in (lambda: StateUnpickler(io.BytesIO(data)).load_complete(), lambda: pickle.loads(data)):
        with pytest.raises(
            CheckpointError, match="fields number, paid, but the class now has the fields number, place, paid"
        ):
            read()


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_renamed_are_refused_or_have_their_default(kind: str) -> None:
    """The value of the former field would become the new one's, or an error of Python would name neither."""
    data = stored(kind, "number: int", "paid: int", number=7, paid=250)
    use(source(kind, "number: int", "amount: int"))
    with pytest.raises(CheckpointError, match="Give the field 'amount' a default or its former name"):
        pickle.loads(data)
    use(source(kind, "number: int", "amount: int = 5"))
    assert fields_of(restored(data), "number", "amount") == [7, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_removed_are_dropped(kind: str) -> None:
    """A restore would end in an error of Python, or later values would move."""
    data = stored(kind, "number: int", "tip: int", "paid: int", number=7, tip=9, paid=250)
    now = use(source(kind, "number: int", "paid: int")).Thing
    assert restored(data) == now(number=7, paid=250)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_in_another_order_keep_their_values(kind: str) -> None:
    """Two values of one type would change places, silently."""
    data = stored(kind, "number: int", "paid: int", number=7, paid=250)
    use(source(kind, "paid: int", "number: int"))
    assert fields_of(restored(data), "number", "paid") == [7, 250]


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_another_type_keep_their_values(kind: str) -> None:
    """Type hints are not compared: some kinds of classes would refuse a value that others take."""
    data = stored(kind, "number: int", "paid: int", number=7, paid=250)
    use(source(kind, "number: int", "paid: str"))
    assert fields_of(restored(data), "number", "paid") == [7, 250]


WITHOUT_SLOTS, WITH_SLOTS = (
    {
        "plain class": f"class Thing:\n    {slots}\n    def __init__(self, *both): self.town, self.lane = both",
        "dataclass": f"@dataclass{option}\nclass Thing:\n    town: str\n    lane: str",
        "frozen dataclass": f"@dataclass(frozen=True{also})\nclass Thing:\n    town: str\n    lane: str",
        "attrs class": f"@attrs.define(slots={is_on})\nclass Thing:\n    town: str\n    lane: str",
    }
    for slots, option, also, is_on in (
        ("pass", "", "", False),
        ("__slots__ = ('lane', 'town')", "(slots=True)", ", slots=True", True),
    )
)


@pytest.mark.parametrize("kind", WITH_SLOTS)
@pytest.mark.parametrize(("before", "after"), [(WITHOUT_SLOTS, WITH_SLOTS), (WITH_SLOTS, WITHOUT_SLOTS)])
def test_slots_may_be_added_and_removed(kind: str, before: dict[str, str], after: dict[str, str]) -> None:
    """A restore would end in `'Thing' object has no attribute '__dict__'`, or with attributes that are missing."""
    data = dumps(use(before[kind]).Thing("Ulm", "Elm Row"))
    now = use(after[kind]).Thing
    thing = restored(data)
    assert type(thing) is now and fields_of(thing, "town", "lane") == ["Ulm", "Elm Row"]
    if before is WITH_SLOTS:
        assert vars(thing) == {"town": "Ulm", "lane": "Elm Row"}


def test_a_class_may_become_one_of_another_kind() -> None:
    """A NamedTuple that has become a dataclass, a usual step, would be refused with an error of Python."""
    for kind in ("NamedTuple", "Struct"):
        data = stored(kind, "number: int", "paid: int", number=7, paid=250)
        for other in ("dataclass", "frozen dataclass with slots", "attrs class", "Struct", "NamedTuple"):
            now = use(source(other, "number: int", "tip: int = 1", "paid: int = 0")).Thing
            assert restored(data) == now(number=7, tip=1, paid=250)


ENUMS = {
    "Enum": "class Thing(enum.Enum):",
    "IntEnum": "class Thing(enum.IntEnum):",
    "StrEnum": "class Thing(enum.StrEnum):",
    "Flag": "class Thing(enum.Flag):",
    "IntFlag": "class Thing(enum.IntFlag):",
}


def members(kind: str, *names: str) -> str:
    return "\n    ".join([ENUMS[kind], *(f"{name} = enum.auto()" for name in names)])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ENUMS)
def test_members_are_found_by_their_names(kind: str, place: str) -> None:
    """A member inserted above would change which constant is in the state."""
    put, found = PLACES[place]
    program = use(CONTAINERS, members(kind, "PAID", "SENT"))
    data = dumps(put(program, program.Thing.SENT))
    for names in (("NEW", "PAID", "SENT"), ("SENT", "PAID"), ("SENT",)):
        now = use(CONTAINERS, members(kind, *names)).Thing
        assert found(restored(data)) is now.SENT


@pytest.mark.parametrize("kind", ENUMS)
def test_members_that_are_gone_are_refused(kind: str) -> None:
    """Another member with the same value would be restored."""
    data = dumps({"k": use(members(kind, "PAID", "SENT")).Thing.SENT})
    use(members(kind, "PAID", "LOST"))
    with pytest.raises(CheckpointError, match=r"Thing.SENT, but the enum now has the members PAID, LOST"):
        pickle.loads(data)
    use(members(kind, "PAID", "LOST") + "\n    SENT = LOST")
    assert restored(data)["k"].name == "LOST"


def test_combinations_of_flags_are_stored_by_the_names_of_their_bits() -> None:
    """Members of a Flag would change with the order of their declaration."""
    flag = use(members("Flag", "READ", "WRITE", "RUN")).Thing
    data = dumps([flag.READ | flag.RUN, flag(0)])
    now = use(members("Flag", "NEW", "RUN", "READ")).Thing
    assert restored(data) == [now.READ | now.RUN, now(0)]
    wide = use(members("IntFlag", "READ", "WRITE")).Thing
    data = dumps(wide.WRITE | 64)
    now = use(members("IntFlag", "NEW", "WRITE")).Thing
    assert restored(data) == now.WRITE | 64


def test_keys_of_maps_and_sets_are_found_by_the_names_of_their_fields() -> None:
    """An entry of a map would be found under no key, or another one's."""
    program = use(members("IntEnum", "A", "B"), source("NamedTuple", "x: int", "y: int").replace("Thing", "Place"))
    data = dumps(({program.Thing.B: 1, program.Place(1, 2): 2}, {program.Thing.A}, Row(program.Thing.B)))
    program = use(
        members("IntEnum", "NEW", "A", "B"), source("NamedTuple", "y: int", "x: int").replace("Thing", "Place")
    )
    entries, names, row = restored(data)
    assert entries == {program.Thing.B: 1, program.Place(x=1, y=2): 2}
    assert names == {program.Thing.A} and row == Row(program.Thing.B)


@pytest.mark.parametrize("kind", ["NamedTuple", "frozen dataclass", "frozen Struct", "frozen attrs class"])
def test_keys_that_have_become_equal_are_refused(kind: str) -> None:
    """Of two entries of a map that differ in a field that was removed one would be lost, silently."""
    make = use(source(kind, "number: int", "paid: int")).Thing
    one, other = make(number=1, paid=2), make(number=1, paid=3)
    lost = [dumps({one: 1, other: 2}), dumps([{one, other}]), dumps({"k": {one: 1, "a": 2, other: 3}})]
    lost.append(dumps(frozenset([one, other])))
    kept = [dumps({one: 1, "a": 2}), dumps([one, other]), dumps([{one}, {other}])]
    now = use(source(kind, "number: int")).Thing
    thing = now(number=1)
    for data in lost:
        with pytest.raises(
            CheckpointError, match="two keys of a map in the state, or members of a set, are now equal to Thing"
        ):
            StateUnpickler(io.BytesIO(data)).load_complete()
    found = [StateUnpickler(io.BytesIO(data)).load_complete() for data in kept]
    assert found == [{thing: 1, "a": 2}, [thing, thing], [{thing}, {thing}]]


COUNTED = """
class Counted:
    read = 0
    def __init__(self): self.number = 1
    def __setstate__(self, state): Counted.read += 1
"""


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_unchanged_classes_are_read_once(kind: str) -> None:
    """A restore would read them a second time, in search of equal keys, and take ten times as long."""
    program = use(COUNTED, source(kind, "number: int"))
    restored_once = StateUnpickler(io.BytesIO(dumps([program.Thing(number=1), program.Counted()]))).load_complete()
    assert restored_once[0] == program.Thing(number=1)
    assert program.Counted.read == 1


def test_values_that_cannot_be_keys_are_read_once() -> None:
    """An attribute beside the fields, such as a cache, would make each restore take ten times as long."""
    program = use(COUNTED, "@dataclass\nclass Thing:\n    number: int\n    def __post_init__(self): self.cache = {}")
    value = StateUnpickler(io.BytesIO(dumps([program.Thing(1), program.Counted()]))).load_complete()
    assert value[0].cache == {}
    assert program.Counted.read == 1


def test_any_dict_of_a_getstate_reaches_its_setstate() -> None:
    """Entries under the keys 0 and None would be missing, and the state could not be restored."""
    own = "\n".join(
        [
            "@dataclass",
            "class Thing:",
            "    number: int",
            "    def __getstate__(self): return {0: self.number, None: 'a'}",
            "    def __setstate__(self, state): self.number, self.seen = state[0], state[None]",
        ]
    )
    back = restored(dumps(use(own).Thing(7)))
    assert (back.number, back.seen) == (7, "a")


def test_what_is_not_set_stays_so() -> None:
    """A field that `__post_init__` sets late could not be restored, or would have another value than before."""
    for options in ("", "(slots=True)"):
        program = use(f"@dataclass{options}\nclass Thing:\n    a: int\n    b: int = field(init=False)")
        thing = restored(dumps(program.Thing(1)))
        assert thing.a == 1 and not hasattr(thing, "b")


def test_cycles_shared_parts_and_attributes_beside_fields_are_kept() -> None:
    """An object that two others refer to would become two; one that refers to itself could not be stored."""
    program = use("@dataclass\nclass Thing:\n    name: str\n    next: Any = None")
    ring = program.Thing("a")
    ring.next = [ring, program.Thing]
    ring.extra = shared = ["x"]
    back, kept, also = restored(dumps((ring, shared, shared)))
    assert back.next[0] is back and back.next[1] is program.Thing
    assert back.extra is kept is also


@pytest.mark.parametrize(
    "kind",
    [
        "class Base:\n    __slots__ = ('seen',)\n@dataclass(slots=True)\nclass Thing(Base):\n    n: int",
        "@dataclass\nclass Thing:\n    __slots__ = ('n', 'seen')\n    n: int",
        "class Base:\n    __slots__ = ('seen',)\n@dataclass\nclass Thing(Base):\n    n: int",
    ],
)
def test_slots_beside_fields_are_kept(kind: str) -> None:
    """Values in a slot that is not a field would be lost in a restore."""
    thing = use(kind).Thing(1)
    thing.seen = ["x"]
    back = restored(dumps(thing))
    assert (back.n, back.seen) == (1, ["x"])


def test_named_tuples_with_a_constructor_of_their_own_keep_their_fields() -> None:
    """Fields would be computed from computed ones, or the constructor be given too many: no restore would succeed."""
    program = use(
        "import collections\n"
        "class Scaled(collections.namedtuple('Scaled', 'lat lon')):\n"
        "    def __new__(cls, lat, lon): return super().__new__(cls, lat * 10, lon * 10)\n"
        "    def __getnewargs__(self): return self.lat / 10, self.lon / 10",
        "class Twice(collections.namedtuple('Twice', 'n twice')):\n"
        "    def __new__(cls, n): return super().__new__(cls, n, 2 * n)\n"
        "    def __getnewargs__(self): return (self.n,)",
    )
    scaled, twice = program.Scaled(1, 2), program.Twice(3)
    twice.note = "kept"
    back, other = restored(dumps([scaled, twice]))
    assert type(back) is program.Scaled and tuple(back) == (10, 20)
    assert type(other) is program.Twice and tuple(other) == (3, 6) and other.note == "kept"


def test_what_a_class_computes_by_now_is_not_restored() -> None:
    """A field that has become a cached property would show its old value forever."""
    data = dumps(use("@dataclass\nclass Thing:\n    n: int\n    twice: int").Thing(2, 5))
    now = "import functools\n@dataclass\nclass Thing:\n    n: int\n    @functools.cached_property\n"
    use(now + "    def twice(self): return 2 * self.n")
    assert restored(data).twice == 4


@pytest.mark.parametrize(
    "head", ["@dataclass\nclass Thing:", "@attrs.define(slots=False)\nclass Thing:", "class Thing(pydantic.BaseModel):"]
)
def test_what_a_cached_property_has_gathered_is_kept(head: str) -> None:
    """A set that a record makes when it is first needed, and fills, would be empty after a restore."""
    program = use(
        f"import functools\n{head}\n    n: int\n    @functools.cached_property\n    def seen(self): return set()"
    )
    thing = program.Thing(n=1)
    thing.seen.add("x")
    once = restored(dumps(thing))
    assert (once.n, once.seen) == (1, {"x"})
    assert restored(dumps(once)).seen == {"x"}


def test_classes_that_pickle_themselves_are_left_to_it() -> None:
    """A class with its own stored versions would receive other arguments."""
    program = use(
        "class Own:\n    def __init__(self, n): self.n = n\n"
        "    def __getstate__(self): return [2, self.n]\n"
        "    def __setstate__(self, state): self.n = ('set', state)",
        "class Made:\n    def __init__(self, n): self.n = n\n    def __reduce__(self): return Made, (self.n + 1,)",
        "@dataclass\nclass Both:\n    n: int\n    m: int = 3\n"
        "    def __getstate__(self): return {'n': self.n}\n"
        "    def __setstate__(self, state): self.n = ('set', state)",
        "class Meta(type): pass\nclass OfMeta(metaclass=Meta): pass",
    )
    own, made, both = restored(dumps([program.Own(1), program.Made(1), program.Both(1)]))
    assert own.n == ("set", [2, 1]) and made.n == 2
    assert both.n == ("set", {"n": 1}) and both.m == 3
    assert restored(dumps([program.OfMeta, program.Own, len])) == [program.OfMeta, program.Own, len]


def test_private_attributes_and_extras_of_models_are_kept() -> None:
    """A model would lose what its methods remember, and fail in them after a restore."""
    head = "class Thing(pydantic.BaseModel):\n    model_config = {'extra': 'allow'}\n    a: int\n    _seen: int = 1"
    head += "\n    def see(self, n): self._seen = n"
    thing = use(head).Thing(a=1, other="x")
    thing.see(5)
    data = dumps(thing)
    use(head + "\n    b: list = []\n    _new: int = 9")
    back = restored(data)
    assert (back.a, back.b, back.other, back._seen, back._new) == (1, [], "x", 5, 9)
    assert back.model_dump() == {"a": 1, "b": [], "other": "x"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_has_a_placeholder_with_its_fields(kind: str) -> None:
    """A savepoint could be read only where the program is installed."""
    program = use(source(kind, "number: int", "paid: int"), members("Enum", "A", "B").replace("Thing", "State"))
    data = dumps([program.Thing(number=7, paid=250), program.State.B])
    del sys.modules[MODULE]
    with classes_found(allow_missing=True):
        assert repr(StateUnpickler(io.BytesIO(data)).load_complete()) == "[Thing(number=7, paid=250), State('B')]"


def test_keys_are_compared_beside_a_class_that_is_not_there() -> None:
    """A savepoint with such a class could not be read once another class has lost a field."""
    gone = "class Gone:\n    def __init__(self): self.a = 1"
    program = use(gone, source("frozen dataclass", "number: int", "paid: int"))
    data = dumps([program.Thing(number=7, paid=250), program.Gone()])
    now = use(source("frozen dataclass", "number: int")).Thing
    with classes_found(allow_missing=True):
        assert StateUnpickler(io.BytesIO(data)).load_complete()[0] == now(number=7)


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_of_before_are_read(kind: str) -> None:
    """No job could be upgraded to this version of penstock."""
    program = use(
        CONTAINERS, source(kind, "number: int", "paid: int = 0"), members("Enum", "A", "B").replace("Thing", "State")
    )
    things = [program.Holder(program.Thing(number=7, paid=250)), program.State.B]
    back = StateUnpickler(io.BytesIO(pickle.dumps(things, 5))).load_complete()
    assert back[0].held == things[0].held and back[1] is program.State.B
    data = pickle.dumps(things, 5)
    after = source(kind, "number: int", "paid: int = 0", "tip: int = -1")
    use(CONTAINERS, after, "class State(enum.Enum):\n    A = 1\n    B = 2")
    back = StateUnpickler(io.BytesIO(data)).load_complete()
    assert fields_of(back[0].held, "number", "paid", "tip") == [7, 250, -1]


def test_enums_of_libraries_and_registered_types_are_pickled_as_they_are() -> None:
    """Values without problems could no longer be read."""
    import decimal
    import http
    import re
    import uuid

    values = [re.IGNORECASE, http.HTTPStatus.OK, re.compile("x"), decimal.Decimal("1.0"), uuid.UUID(int=5), 1j, print]
    assert restored(dumps(values)) == values
    assert isinstance(restored(dumps(enum.Flag)), type)
