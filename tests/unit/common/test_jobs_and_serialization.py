import datetime
import io
import json
import pickle
import signal
import threading
from concurrent.futures import CancelledError, Future
from decimal import Decimal
from typing import Any

import pytest

from penstock import common
from penstock.common import (
    ByteArraySchema,
    CompletableFuture,
    Encoder,
    JobExecutionResult,
    JobID,
    JobStatus,
    Row,
    SimpleStringSchema,
)
from penstock.common.serialization import RowFieldExtractorSchema
from penstock.common.serializer import VoidNamespaceSerializer


def test_public_names_are_sorted_and_there() -> None:
    """`from penstock.common import X` would fail for a name that PyFlink has."""
    assert common.__all__ == sorted(common.__all__)
    assert all(hasattr(common, name) for name in common.__all__)


def test_job_ids_differ_and_can_be_read_back() -> None:
    """Files of two jobs would be mixed."""
    job_id = JobID.generate()
    assert job_id != JobID.generate() and JobID(str(job_id)) == job_id and len({job_id, JobID(str(job_id))}) == 1
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        JobID("../../etc")


def test_terminal_states() -> None:
    """A client would wait forever for a job that has ended."""
    over = {status for status in JobStatus if status.is_globally_terminal_state()}
    assert over == {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {status for status in JobStatus if status.is_terminal_state()} == over | {JobStatus.SUSPENDED}


def test_results_hand_out_copies() -> None:
    """Readers of accumulators could change them for other readers."""
    result = JobExecutionResult(JobID.generate(), 12, {"n": 3})
    result.get_all_accumulator_results().clear()
    assert result.get_accumulator_result("n") == 3 and result.get_accumulator_result("m") is None


def test_futures_tell_errors_without_waiting() -> None:
    """Reading the error would block until the job has ended."""
    future: Future[int] = Future()
    pending = CompletableFuture(future)
    assert pending.exception() is None and not pending.done()
    assert pending.cancel() and pending.cancelled() and isinstance(pending.exception(), CancelledError)
    failed: Future[int] = Future()
    failed.set_exception(KeyError("x"))
    assert isinstance(CompletableFuture(failed).exception(), KeyError)


def test_strings_and_bytes_as_messages() -> None:
    """Text in another character set would be garbled in a topic."""
    schema = SimpleStringSchema("latin-1")
    assert schema.deserialize(schema.serialize("é")) == "é" and schema.serialize("é") == b"\xe9"
    assert ByteArraySchema().serialize(bytearray(b"a")) == b"a"
    assert RowFieldExtractorSchema(1).serialize(Row(1, b"k")) == b"k"
    for call in (lambda: schema.serialize(1), lambda: ByteArraySchema().serialize("a")):
        with pytest.raises(TypeError, match="needs"):
            call()
    with pytest.raises(TypeError, match="must be bytes"):
        RowFieldExtractorSchema(0).serialize(Row(1))
    with pytest.raises(ValueError, match="character set"):
        SimpleStringSchema("klingon")


def test_encoders_write_one_line_a_value() -> None:
    """A file of JSON lines could not be read back, line by line."""
    value = Row(id=1, when=datetime.date(2020, 1, 2), price=Decimal("1.10"), tags=("a\n", Row(1, None)))
    encoder = pickle.loads(pickle.dumps(Encoder.json_encoder()))
    line = encoder.encode(value)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"id": 1, "when": "2020-01-02", "price": "1.10", "tags": ["a\n", [1, None]]}
    assert Encoder.simple_string_encoder().encode((1, "é")) == "(1, 'é')\n".encode()
    with pytest.raises(TypeError, match="can't be written as JSON"):
        encoder.encode(object())


def test_csv_of_any_record() -> None:
    """A spreadsheet would show values in the wrong columns, or cut at a comma."""
    encoder = pickle.loads(pickle.dumps(Encoder.csv_encoder(["id", "name"])))
    for record in ({"name": 'a,"b"', "id": 1, "more": 2}, Row(id=1, name='a,"b"'), Row(1, 'a,"b"'), (1, 'a,"b"')):
        assert encoder.encode(record) == b'1,"a,""b"""\n'
    moment = datetime.datetime(2013, 1, 1, 5, 15)
    values = (None, True, moment, moment.date(), Decimal("1.10"), 0.5, ["a", Row(x=1)], b"\x00", "é")
    assert Encoder.csv_encoder(delimiter=";", null_value="-", charset_name="latin-1").encode(values) == (
        b'-;true;2013-01-01T05:15:00;2013-01-01;1.10;0.5;"[""a"",{""x"":1}]";AA==;\xe9\n'
    )


def test_floats_that_are_no_numbers_in_csv() -> None:
    """Java's readers, and our own schemas of CSV, would not read what was written."""
    floats = (float("nan"), float("inf"), -float("inf"), 1.5, "nan", "info")
    assert Encoder.csv_encoder().encode(floats) == b"NaN,Infinity,-Infinity,1.5,nan,info\n", "as in Java"


def test_csv_that_can_not_be_is_refused() -> None:
    """A delimiter inside of a value would shift all columns after it."""
    assert Encoder.csv_encoder(quote_char=None, escape_char="\\").encode(("a,b",)) == b"a\\,b\n"
    with pytest.raises(ValueError, match="can't be written as CSV"):
        Encoder.csv_encoder(quote_char=None).encode(("a,b",))
    with pytest.raises(TypeError, match="set columns for"):
        Encoder.csv_encoder().encode({"id": 1})
    with pytest.raises(TypeError, match="list of names"):
        Encoder.csv_encoder("id")
    with pytest.raises(TypeError, match="delimiter"):
        Encoder.csv_encoder(delimiter="::")


def test_the_void_namespace_takes_no_byte() -> None:
    """State without a window would not be found after a restore."""
    stream = io.BytesIO()
    VoidNamespaceSerializer().serialize(b"", stream)
    assert stream.getvalue() == b"" and VoidNamespaceSerializer() == VoidNamespaceSerializer()


def test_ctrl_c_ends_a_wait_whatever_thread_the_kernel_gives_it_to() -> None:
    """The job would run on, as if nobody had pressed a key."""
    future: Future[int] = Future()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
    end = threading.Timer(20, future.set_result, [1])
    try:
        other.start()
        end.start()
        with pytest.raises(KeyboardInterrupt):
            CompletableFuture(future).result()
        assert not future.done()
    finally:
        end.cancel()
        signal.signal(signal.SIGINT, before)


def test_a_wait_has_an_end() -> None:
    """A program that waits a moment would wait for the job; or a call's own TimeoutError would count as the wait's."""
    with pytest.raises(TimeoutError):
        CompletableFuture(Future[int]()).result(0.01)
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("of the call"))
    with pytest.raises(TimeoutError, match="of the call"):
        CompletableFuture(failed).result()


@pytest.mark.parametrize("make", [Encoder.simple_string_encoder, lambda name: Encoder.csv_encoder(charset_name=name)])
def test_a_charset_with_a_mark_before_each_record_is_refused(make: Any) -> None:
    """The second record of a file would begin with a character that nobody sees: keys would not be equal."""
    for name in ("UTF-16", "utf-32", "utf-8-sig"):
        with pytest.raises(ValueError, match=f"{name} writes a byte order mark before each record"):
            make(name)
    for name in ("UTF-8", "UTF-16LE", "latin-1"):
        assert make(name).encode(("a",)) == make(name).encode(("a",)) != b""
