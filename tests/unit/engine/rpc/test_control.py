"""The control plane over real sockets: keys, messages both ways, heartbeats, and who waits for whom."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import msgspec
import pytest

from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.keys import make_keys
from penstock.engine.rpc.messages import (
    Answer,
    FromSlot,
    Heartbeat,
    OperatorReport,
    Register,
    SlotFailed,
    TaskReport,
    ToTask,
    decode_from_job_master,
    decode_to_job_master,
    encode,
)
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    AssignSplits,
    Cancel,
    CheckpointComplete,
    Close,
    DataEnded,
    Decline,
    Drain,
    Finished,
    NoMoreSplits,
    Opaque,
    RequestSplit,
    Result,
    TriggerCheckpoint,
)


def register(slot: int) -> FromSlot:
    return FromSlot(0, 1, slot, Register())


def request(slot: int, vertex: int) -> FromSlot:
    return FromSlot(0, 1, slot, RequestSplit(vertex, slot))


def result(slot: int, values: object) -> FromSlot:
    return FromSlot(0, 1, slot, Result(0, slot, 1, Opaque(values)))


class Driver:
    """A server that records what it receives."""

    def __init__(self) -> None:
        self.arrived: list = []
        self.identities: dict = {}
        self.ticks = 0
        self.server = ControlServer("127.0.0.1")
        self.server.start(self.on_message, self.on_tick)

    def on_message(self, identity, message) -> None:
        self.identities[message.index] = identity
        self.arrived.append(message)

    def on_tick(self) -> None:
        self.ticks += 1


class Slot(ControlClient):
    """A client that records what it receives."""

    def __init__(self, address, slot: int = 0, interval_ms: int = 10_000, heartbeat: Callable | None = None) -> None:
        self.got: list = []
        super().__init__(
            address, self.got.append, heartbeat or (lambda sent: FromSlot(0, 1, slot, Heartbeat([]))), interval_ms
        )


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for it. The bound is generous: these tests run at a low priority beside Spark, and move 80 MB."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def driver():
    driver = Driver()
    yield driver
    driver.server.stop()
    until(lambda: driver.server._thread is None or not driver.server._thread.is_alive())


@pytest.fixture
def slots(driver):
    made: list[Slot] = []

    def make(*arguments, **settings) -> Slot:
        made.append(Slot(driver.server.address, *arguments, **settings))
        return made[-1]

    yield make
    for slot in made:
        slot.close()


def test_messages_go_both_ways_in_order(driver, slots) -> None:
    """Splits would be assigned twice, or to another slot."""
    one, two = slots(1), slots(2)
    for slot, number in ((one, 1), (two, 2)):
        slot.send(register(number))
        for vertex in range(100):
            slot.send(request(number, vertex))
    until(lambda: len(driver.arrived) == 202)
    for number in (1, 2):
        of_slot = [message for message in driver.arrived if message.index == number]
        assert isinstance(of_slot[0].report, Register)
        assert [message.report.vertex for message in of_slot[1:]] == list(range(100))

    def answer() -> None:
        for vertex in range(100):
            driver.server.send(driver.identities[2], ToTask(0, vertex, AssignSplits(Opaque(["split"]))))

    driver.server.call_soon(answer)
    until(lambda: len(two.received) == 100)
    assert [message.vertex for message in two.received] == list(range(100))
    assert list(two.received) == two.got
    assert not one.received


def test_a_stranger_is_not_heard(driver, slots) -> None:
    """Any process that reaches the port could end the job, or send it a pickle."""
    address, keys = driver.server.address, make_keys()
    other_client = msgspec.structs.replace(address, client_public=keys.client_public, client_secret=keys.client_secret)
    other_server = msgspec.structs.replace(address, server_public=keys.server_public)
    strangers = [Slot(wrong, 9) for wrong in (other_client, other_server)]
    for stranger in strangers:
        stranger.send(register(9))
    known = slots(1)
    known.send(register(1))
    until(lambda: bool(driver.arrived))
    time.sleep(0.3)
    assert {message.index for message in driver.arrived} == {1}
    for stranger in strangers:
        stranger._context.linger = 0
        threading.Thread(target=stranger.close, daemon=True).start()  # what it could not send lingers a while


def test_each_job_has_keys_of_its_own() -> None:
    """A slot of one job could speak for another."""
    assert len({key for _ in range(3) for key in msgspec.structs.astuple(make_keys())}) == 12


@pytest.mark.parametrize("chatty", [False, True])
def test_heartbeats_come_whatever_else_is_said(driver, slots, chatty: bool) -> None:
    """Metrics of a slot that sends results without a pause would stand still."""
    slot = slots(3, interval_ms=50)
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        if chatty:
            slot.send(result(3, "x"))
        time.sleep(0.005)
    until(lambda: sum(isinstance(message.report, Heartbeat) for message in driver.arrived) >= 5, seconds=2)


def test_heartbeats_come_while_the_slot_is_blocked(driver, slots) -> None:
    """Back pressure, or a slow function, would be taken for a dead worker."""
    slots(4, interval_ms=20)
    until(lambda: len(driver.arrived) >= 3)


def test_a_heartbeat_that_can_not_be_made_ends_nothing(driver) -> None:
    """The slot could neither be reached nor say what is wrong: "no heartbeat" a minute later, and again."""
    failures: list[BaseException] = []
    slot = ControlClient(driver.server.address, lambda message: None, lambda sent: 1 // 0, 10, failures.append)
    until(lambda: len(failures) > 1)
    slot.send(register(3))
    until(lambda: register(3) in driver.arrived)
    driver.server.call_soon(lambda: driver.server.send(driver.identities[3], ToTask(0, 1, Close())))
    until(lambda: list(slot.received) == [ToTask(0, 1, Close())])
    slot.close()
    assert {type(failure) for failure in failures} == {ZeroDivisionError}


def test_thousands_of_assignments_reach_a_slow_slot(driver, slots) -> None:
    """Splits above the socket's high-water mark would be dropped silently, and never be read."""
    gate = threading.Event()

    def slow(sent: int) -> FromSlot:
        gate.wait(60)
        return FromSlot(0, 1, 5, Heartbeat([]))

    slot = slots(5, interval_ms=100, heartbeat=slow)
    slot.send(register(5))
    until(lambda: 5 in driver.identities)
    time.sleep(0.2)  # it is in its heartbeat now

    def assign() -> None:
        for vertex in range(20_000):
            driver.server.send(driver.identities[5], ToTask(0, vertex, AssignSplits(Opaque(["x" * 50]))))

    driver.server.call_soon(assign)
    time.sleep(0.3)
    gate.set()
    until(lambda: len(slot.received) == 20_000)
    assert [message.vertex for message in slot.received] == list(range(20_000))


def test_a_slot_waits_when_nobody_takes_its_results(driver, slots) -> None:
    """Results that the driver does not take yet would fill the memory of the worker."""
    gate = threading.Event()
    driver.server.call_soon(lambda: gate.wait(120))
    slot = slots(6)
    sent = [0]
    # Large enough for the sockets' buffers in the kernel to be full after some thousands.
    payload = b"x" * 2_000

    def send() -> None:
        for _ in range(40_000):
            slot.send(result(6, payload))
            sent[0] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    last = -1
    while sent[0] != last:
        last = sent[0]
        time.sleep(0.5)
    assert last < 40_000, "it never waited"
    gate.set()
    thread.join(timeout=120)
    until(lambda: sum(isinstance(message.report, Result) for message in driver.arrived) == 40_000)


def test_heartbeats_come_between_messages_that_wait(driver, slots) -> None:
    """A slot that sends results without a pause would be taken for dead, and its counters would stand still."""
    gate = threading.Event()

    def beat(sent: int) -> FromSlot:
        gate.wait(20)
        return FromSlot(0, 1, 9, Heartbeat([]))

    slot = slots(9, interval_ms=0, heartbeat=beat)
    for vertex in range(800):
        slot.send(request(9, vertex))
    gate.set()
    until(lambda: any(getattr(message.report, "vertex", 0) == 799 for message in driver.arrived))
    kinds = [isinstance(message.report, Heartbeat) for message in driver.arrived]
    runs = [len(list(run)) for is_beat, run in itertools.groupby(kinds) if not is_beat]
    assert sum(runs) == 800 and max(runs) < 100


def test_a_slot_whose_results_wait_hears_the_driver() -> None:
    """Triggers, splits and a cancel would come seconds late, or never, while the driver is slow to take results."""
    full, heard = threading.Event(), threading.Event()
    arrived: list[FromSlot] = []

    def on_message(identity: bytes, message) -> None:
        if not isinstance(message.report, Result):
            return
        arrived.append(message)
        if len(arrived) == 1:
            full.wait(120)
            server.send(identity, ToTask(0, 0, Cancel()))
            heard.wait(60)

    server = ControlServer("127.0.0.1")
    server.start(on_message, lambda: None)
    slot = Slot(server.address, 2)
    sent = [0]
    payload = b"x" * 5_000

    def send() -> None:
        while not heard.is_set():
            slot.send(FromSlot(0, 1, 2, Result(0, sent[0], 1, Opaque(payload))))
            sent[0] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    last = -1
    while sent[0] != last:
        last = sent[0]
        time.sleep(0.5)
    full.set()
    until(lambda: bool(slot.received), seconds=50)
    heard.set()
    thread.join(timeout=60)
    until(lambda: len(arrived) == sent[0])
    assert [message.report.subtask for message in arrived] == list(range(sent[0]))
    slot.close()
    server.stop()


def test_what_was_said_before_the_end_arrives(driver) -> None:
    """The last results, and the report that a task is finished, would be lost."""
    slot = Slot(driver.server.address, 7)
    for vertex in range(500):
        slot.send(request(7, vertex))
    slot.close()
    until(lambda: len(driver.arrived) == 500)


def test_a_client_can_be_closed_though_nobody_listens(driver) -> None:
    """A worker whose driver died would stay for ever."""
    slot = Slot(driver.server.address, 8)
    driver.server.stop()
    slot.send(register(8))
    started = time.monotonic()
    slot.close()
    assert time.monotonic() - started < 10


def test_the_server_ticks_and_stops_from_its_own_thread(driver) -> None:
    """Timeouts would not be noticed; the end of a job would block the thread that ends it."""
    until(lambda: driver.ticks >= 2)
    driver.server.call_soon(driver.server.stop)
    until(lambda: not driver.server._thread.is_alive())
    driver.server.call_soon(lambda: pytest.fail("called after the end"))


def test_calls_of_other_threads_are_made_in_order(driver) -> None:
    """A cancel could overtake what it is to cancel."""
    made: list[int] = []
    for n in range(200):
        driver.server.call_soon(lambda n=n: made.append(n))
    until(lambda: len(made) == 200)
    assert made == list(range(200))


def test_thousands_of_calls_wait_for_a_busy_server(driver) -> None:
    """The outcomes of a checkpoint's commits would be lost, and the threads that report them would end."""
    gate, made = threading.Event(), []
    driver.server.call_soon(lambda: gate.wait(120))
    for n in range(3000):
        assert driver.server.call_soon(lambda n=n: made.append(n))
    gate.set()
    until(lambda: len(made) == 3000)
    assert made == list(range(3000))


def test_calls_that_call_again_leave_room_for_messages(driver, slots) -> None:
    """A job whose results are committed without a pause would neither hear its slots nor notice timeouts."""

    def again() -> None:
        driver.server.call_soon(again)

    again()
    slots(1).send(register(1))
    ticks = driver.ticks
    until(lambda: bool(driver.arrived) and driver.ticks > ticks)


def test_calls_of_many_threads_are_all_made(driver) -> None:
    """A call that arrives while the ones before are taken would wait for the next one, perhaps for ever."""
    made: list[int] = []

    def submit() -> None:
        for n in range(2000):
            driver.server.call_soon(lambda n=n: made.append(n))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(made) == 8000)


def test_a_server_that_never_started_can_be_stopped() -> None:
    """A job that fails before its start would leave its port open."""
    server = ControlServer("127.0.0.1")
    assert server.address.endpoint.startswith("tcp://127.0.0.1:")
    server.stop()


def test_messages_survive_their_encoding() -> None:
    """A counter would arrive as another, or a savepoint as a checkpoint."""
    operator = OperatorReport("m", 1, 2, 3, -(2**63), {"a.b": 1.5})
    report = TaskReport(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, [operator], 13)
    reports = [
        Heartbeat([report]), Register(), SlotFailed("JobError", "text"), RequestSplit(1, 2),
        Result(1, 2, 3, Opaque([{"any": object}]), 4), DataEnded(1, 2),
        Decline(1, 2, 3, DeclineReason.NEWER, "why"), Finished(1, 2),
        Acknowledge(1, 2, 3, commits=Opaque([(7, ["file"])])),
    ]  # fmt: skip
    for one in reports:
        assert decode_to_job_master(encode(FromSlot(5, 6, 7, one))) == FromSlot(5, 6, 7, one)
    events = [
        AssignSplits(Opaque([1])), NoMoreSplits(), Drain(), Close(), Cancel(), CheckpointComplete(3),
        AbortCheckpoint(3), TriggerCheckpoint(3, 4, CheckpointOptions(True, "/sp", True)),
    ]  # fmt: skip
    for event in events:
        assert decode_from_job_master(encode(ToTask(1, 2, event))) == ToTask(1, 2, event)
    with pytest.raises(msgspec.ValidationError):
        decode_to_job_master(encode(ToTask(1, 2, Close())))


def test_what_can_not_be_written_arrives_with_escapes() -> None:
    """The reason would be lost for the name of a file in it, and the slot be taken for dead."""
    reason, escaped = "no such file: '/data/\udce9t\udce9'", r"no such file: '/data/\udce9t\udce9'"
    report = TaskReport(1, 2, *[0] * 10, [OperatorReport("\udc80", 1, 2, 3, 4, {"u\udc80": 5})], 13)
    for one, arrived in (
        (Decline(1, 2, 3, DeclineReason.STATE, reason), Decline(1, 2, 3, DeclineReason.STATE, escaped)),
        (
            SlotFailed("JobError", reason, frozenset({"E\udc80"})),
            SlotFailed("JobError", escaped, frozenset({r"E\udc80"})),
        ),
        (
            Heartbeat([report], 7),
            Heartbeat(
                [msgspec.structs.replace(report, operators=[OperatorReport(r"\udc80", 1, 2, 3, 4, {r"u\udc80": 5})])], 7
            ),
        ),
    ):
        assert decode_to_job_master(encode(FromSlot(5, 6, 7, one))) == FromSlot(5, 6, 7, arrived)
    assert decode_from_job_master(encode(Answer(False, reason))) == Answer(False, escaped)


class Loud:
    """Cries when it is unpickled."""

    def __reduce__(self) -> tuple:
        return pytest.fail, ("unpickled by somebody who passes it on only",)


def test_what_is_passed_on_is_not_unpickled() -> None:
    """A user's class would run its code on the job master's thread."""
    message = decode_to_job_master(encode(result(1, [Loud()])))
    assert decode_to_job_master(encode(message)).report.sink_id == 1
