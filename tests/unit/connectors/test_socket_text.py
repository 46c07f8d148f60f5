"""The socket source, with real sockets on loopback."""

import pickle
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.source import END_OF_INPUT, Nothing, Records
from penstock.common.errors import ProgramError, SourceError
from penstock.connectors.socket import POLL_MS, RETRY_MS, DelimitedText, SocketTextSource, WriteAheadLog
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

SECONDS = 30


class Context:
    subtask, parallelism = 0, 1

    def __init__(self, checkpointing):
        self.checkpointing = checkpointing
        self.clock_ms = 0
        self.requests = 0

    def now_ms(self):
        return self.clock_ms

    def request_split(self):
        self.requests += 1

    def assign_split(self, split, subtask):
        self.assigned = split

    def signal_no_more_splits(self, subtask):
        self.assigned = None


class Client:
    """A reader with its split, new or from a snapshot."""

    def __init__(self, server, *, checkpointing=False, splits=None, **options):
        self.context = Context(checkpointing)
        source = pickle.loads(pickle.dumps(SocketTextSource(*server.getsockname()[:2], **options)))
        if splits is None:
            source.create_enumerator(self.context).handle_split_request(0)
            splits = [self.context.assigned]
        self.reader = source.create_reader(self.context)
        self.reader.add_splits(pickle.loads(pickle.dumps(splits)))
        self.reader.start()

    def poll(self, max_records=100):
        """Return the result of one poll: a list of records, or the step returned instead."""
        step = self.reader.poll(max_records)
        return step.values if isinstance(step, Records) else step

    def until(self, enough):
        """Poll until `enough(records, last step)`; waits for the network, not for the clock."""
        records, deadline = [], time.monotonic() + SECONDS
        while True:
            step = self.poll()
            records += step if isinstance(step, list) else []
            if enough(records, step):
                return records
            assert time.monotonic() < deadline, f"{step} after {records}"

    def lines(self, count):
        return self.until(lambda records, _: len(records) >= count)

    def to_end(self):
        return self.until(lambda _, step: step is END_OF_INPUT)

    def hold(self, count):
        """Receive that many records, none of which may be emitted."""
        return self.until(lambda records, _: not records and len(self.reader._log) >= count)

    def snapshot(self, checkpoint_id):
        self.reader.prepare_snapshot(checkpoint_id)
        return pickle.loads(pickle.dumps(self.reader.snapshot_state()))


@pytest.fixture
def server():
    """Listens on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def accepted(server, client):
    """The server's end of the client's connection."""
    client.poll()
    server.settimeout(SECONDS)
    return server.accept()[0]


def reset(connection):
    """Break a connection, instead of closing it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_lines_as_they_come(server):
    """A demo with netcat would show nothing, or stray carriage returns, or lose the last line."""
    client = Client(server)
    assert isinstance(client.poll(), Nothing), "it must not wait"
    with accepted(server, client) as connection:
        assert client.poll() == Nothing(POLL_MS)
        connection.sendall(b"one\ntwo\r\nthr")
        assert client.lines(2) == ["one", "two"]
        connection.sendall("ée\n\nlast".encode())
        assert client.lines(2) == ["thrée", ""]
    assert client.to_end() == ["last"]
    assert client.snapshot(1) == []
    client.reader.close()


def test_no_more_records_than_asked_for(server):
    """A burst would produce a chunk beyond every budget."""
    client = Client(server)
    with accepted(server, client) as connection:
        connection.sendall(b"x\n" * 7)
        chunks, deadline = [], time.monotonic() + SECONDS
        while sum(map(len, chunks)) < 7:
            assert time.monotonic() < deadline
            step = client.poll(3)
            chunks += [step] if isinstance(step, list) else []
        assert chunks == [["x"] * 3, ["x"] * 3, ["x"]]


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]), max_size=4), max_size=8),
    size=st.integers(1, 5),
    delimiter=st.sampled_from(["|", "||", "|\n|"]),
)
def test_however_the_network_cuts_it(texts, size, delimiter):
    """A character or delimiter split over two packets would break a record."""
    text = DelimitedText(delimiter)
    data = "".join(one + delimiter for one in texts).encode()
    came = [one for start in range(0, len(data), size) for one in text.feed(data[start : start + size])]
    assert came == texts
    assert text.end() == []


def test_with_checkpoints_a_record_waits_for_one(server):
    """A record could affect state that is lost, and the server can't send it again."""
    client = Client(server, checkpointing=True)
    with accepted(server, client) as connection:
        connection.sendall(b"a\nb\n")
        assert client.hold(2) == []
        (split,) = client.snapshot(1)
        assert split.log == ("a", "b")
        connection.sendall(b"c\n")
        assert client.hold(3) == []
        client.reader.notify_checkpoint_complete(1)
        assert client.lines(2) == ["a", "b"]
        assert isinstance(client.poll(), Nothing)
        (split,) = client.snapshot(2)
        assert split.log == ("c",), "what was handed on is in the state of others by now"
    client.reader.close()


def test_the_end_waits_for_a_checkpoint(server):
    """The last records of a stream would be lost if the job fails right after them."""
    client = Client(server, checkpointing=True)
    with accepted(server, client) as connection:
        connection.sendall(b"a\nb")
    assert client.hold(2) == []
    assert client.snapshot(1)[0].ended
    assert isinstance(client.poll(), Nothing)
    client.reader.notify_checkpoint_complete(1)
    assert client.to_end() == ["a", "b"]


def test_the_log_is_replayed_after_a_restart(server):
    """Records would be lost with the worker, because the server does not send them again."""
    client = Client(server, checkpointing=True)
    with accepted(server, client) as connection:
        connection.sendall(b"a\nb\n")
        client.hold(2)
        splits = client.snapshot(1)
    client.reader.close()

    again = Client(server, checkpointing=True, splits=splits)
    assert again.poll() == ["a", "b"], "the checkpoint that held them is complete"
    with accepted(server, again) as connection:
        connection.sendall(b"c\n")
        assert again.hold(1) == []
        again.snapshot(2)
        again.reader.notify_checkpoint_complete(2)
        assert again.lines(1) == ["c"]
    again.until(lambda _, step: step is END_OF_INPUT)


def test_a_server_that_is_gone_after_a_restart(server):
    """The job would fail repeatedly, and never emit what it had received."""
    client = Client(server, checkpointing=True)
    with accepted(server, client) as connection:
        connection.sendall(b"a\n")
        client.hold(1)
        splits = client.snapshot(1)
    server.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        again = Client(free, checkpointing=True, splits=splits)
        assert again.to_end() == ["a"]


@pytest.mark.parametrize("end", ["\n", ""])
def test_text_that_is_not_utf_8(server, end):
    """Names would silently be changed forever."""
    client = Client(server)
    with accepted(server, client) as connection:
        connection.sendall(b"one\ntwo\n")
        assert client.lines(2) == ["one", "two"]
        connection.sendall(b"Z\xfcrich" + end.encode())
        connection.close()
        host, port = server.getsockname()[:2]
        with pytest.raises(SourceError, match=rf"(?s)the socket {host}:{port}: line 3 is not UTF-8 text: .*Z\\xfcrich"):
            client.to_end()


def test_attempts_after_the_connection_was_lost(server):
    """A restarted server would lose its readers."""
    client = Client(server, max_retry=1)
    with accepted(server, client) as connection:
        connection.sendall(b"a\nb")
    assert client.lines(2) == ["a", "b"], "a line does not continue in another connection"
    client.until(lambda _, __: client.reader._connection is None)
    client.context.clock_ms += RETRY_MS - 1
    assert isinstance(client.poll(), Nothing) and client.reader._connection is None
    client.context.clock_ms += 1
    with accepted(server, client) as connection:
        connection.sendall(b"c\n")
        assert client.lines(1) == ["c"]
    assert client.to_end() == []


def test_a_server_that_comes_later(server):
    """Whether a job works would depend on the start order of two programs."""
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        client = Client(late, max_retry=-1)
        for _ in range(5):
            client.until(lambda _, __: client.reader._connection is None)
            client.context.clock_ms += RETRY_MS
        late.listen()
        with accepted(late, client) as connection:
            connection.sendall(b"a\n")
            assert client.lines(1) == ["a"]
    client.reader.close()


def test_no_server(server):
    """A wrong port would look like an empty stream."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        client = Client(free)
        with pytest.raises(SourceError, match=rf"cannot read the socket 127\.0\.0\.1:{port}: .*refused"):
            client.to_end()


def test_a_connection_that_breaks(server):
    """Part of the data would be treated as all of it."""
    client = Client(server)
    connection = accepted(server, client)
    client.until(lambda _, __: client.reader._connected)
    reset(connection)
    with pytest.raises(SourceError, match=r"cannot read the socket .*reset"):
        client.to_end()


def test_a_full_log_holds_the_server_back(server, monkeypatch):
    """A long time without a checkpoint would exhaust the worker's memory."""
    monkeypatch.setattr("penstock.connectors.socket.LOG_CHARACTERS_MAX", 3)
    client = Client(server, checkpointing=True)
    with accepted(server, client) as connection:
        connection.sendall(b"abcd\n")
        client.hold(1)
        connection.sendall(b"efgh\n")
        connection.shutdown(socket.SHUT_WR)
        for _ in range(100):
            assert isinstance(client.poll(), Nothing)
        assert len(client.reader._log) == 1
        for checkpoint_id in (1, 2):
            client.snapshot(checkpoint_id)
            client.reader.notify_checkpoint_complete(checkpoint_id)
            assert len(client.lines(1)) == 1
            if checkpoint_id == 1:
                client.hold(1)
        client.to_end()


def test_the_log_releases_what_a_complete_checkpoint_holds():
    """After an aborted checkpoint, records would be emitted that no checkpoint contains."""
    log = WriteAheadLog(["restored"])
    log.add(["a"])
    log.mark(1)  # given up
    log.add(["b"])
    log.mark(2)
    log.add(["c"])
    log.mark(3)
    log.add(["d"])
    assert log.take(10) == ["restored"]
    log.complete(2)
    assert [log.take(1), log.take(10), log.take(10)] == [["a"], ["b"], []]
    assert log.content() == ("c", "d") and log.characters == 2
    log.complete(1)
    assert log.take(10) == []
    log.complete(3)
    assert log.take(10) == ["c"]
    log.release()
    assert log.take(10) == ["d"] and len(log) == 0 and log.characters == 0


def test_a_reader_without_a_split(server):
    """It would request splits twice, or wait forever when another reader has the split."""
    context = Context(True)
    made = SocketTextSource("127.0.0.1", 1).create_reader(context)
    made.start()
    assert (context.requests, made.poll(1), made.snapshot_state()) == (1, Nothing(), [])
    made.prepare_snapshot(1)
    made.notify_checkpoint_complete(1)
    made.no_more_splits()
    assert made.poll(1) is END_OF_INPUT
    made.close()


def test_in_a_program():
    """Two subtasks would each take half of the lines, out of order."""
    env = StreamExecutionEnvironment().set_parallelism(4)
    lines = env.socket_text_stream("localhost", 9999)
    assert lines._transformation.parallelism == 1
    lines.print()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    with pytest.raises(ProgramError, match="unbounded"):
        env.execute()


def test_mistakes_are_refused_when_the_stream_is_made():
    """Mistakes would be found in a worker."""
    for arguments, message in [
        ((5, 1), "host must be of type str"),
        (("", 1), "host must be a name"),
        (("a", "1"), "port must be of type int"),
        (("a", 0), "port must be from 1"),
        (("a", 1, ""), "delimiter must have at least one character"),
        (("a", 1, "\n", -2), "max_retry must be 0 or more"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            SocketTextSource(*arguments)
