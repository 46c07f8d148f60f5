"""The generator of Nexmark's events, and its source."""

from __future__ import annotations

import datetime
import hashlib
from types import SimpleNamespace

import numpy
import pyarrow
import pytest

from penstock.api.source import Boundedness
from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.nexmark.ahead import EventsAhead
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import EVENTS_MAX, NexmarkGenerator
from penstock.connectors.nexmark.schema import event_schema
from penstock.connectors.nexmark.slices import SPARE_BYTES, slices
from penstock.connectors.nexmark.source import NexmarkSource
from penstock.connectors.nexmark.split import dealt
from penstock.datastream.connectors.datagen import RateLimiterStrategy
from penstock.testing.conformance.source import SourceRun, check_source, read_all

EPOCH = datetime.datetime(1970, 1, 1)
CONTEXT = SimpleNamespace(parallelism=1, subtask=0, request_split=lambda: None)
KINDS = ("person", "auction", "bid")
SHUFFLED = NexmarkConfiguration(
    event_rate=10_000_000,
    out_of_order_group_size=1000,
    person_proportion=2,
    auction_proportion=5,
    bid_proportion=13,
)
CONFIGURATIONS = (
    NexmarkConfiguration(),
    SHUFFLED,
    NexmarkConfiguration(person_proportion=0, auction_proportion=1, bid_proportion=1, event_rate=333),
    NexmarkConfiguration(person_proportion=1, auction_proportion=0, bid_proportion=0, out_of_order_group_size=7),
    NexmarkConfiguration(person_proportion=1, auction_proportion=0, bid_proportion=2, base_time_ms=0),
)


def milliseconds(time: datetime.datetime) -> int:
    return (time - EPOCH) // datetime.timedelta(milliseconds=1)


def determined(configuration: NexmarkConfiguration, count: int) -> list[tuple[int, int | None, int]]:
    """Return kind, new id and time of events by the published rules, one event after the other."""
    people, auctions = configuration.person_proportion, configuration.auction_proportion
    total = people + auctions + configuration.bid_proportion
    group = configuration.out_of_order_group_size
    found: list[tuple[int, int | None, int]] = []
    for emitted in range(count):
        number = emitted + 1
        number = number // group * group + number * 953 % group
        time = configuration.base_time_ms + int(number * (1_000_000.0 / configuration.event_rate)) // 1000
        epoch, place = divmod(number + 1, total)
        if place < people:
            found.append((0, epoch * people + place + 1000, time))
        elif place < people + auctions:
            found.append((1, epoch * auctions + place - people + 1000, time))
        else:
            found.append((2, None, time))
    return found


def generated(configuration: NexmarkConfiguration, count: int) -> list[tuple[int, int | None, int]]:
    found = []
    for event in NexmarkGenerator(configuration).events(0, count).to_pylist():
        row = event[KINDS[event["event_type"]]]
        assert row["dateTime"] == event["dateTime"]
        found.append((event["event_type"], row.get("id"), milliseconds(event["dateTime"])))
    return found


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_what_is_not_random_is_as_published(configuration):
    """Results of queries could not be compared with those of other engines on their own events."""
    assert generated(configuration, 5000) == determined(configuration, 5000)


@pytest.mark.parametrize(
    ("configuration", "digest"),
    [
        (NexmarkConfiguration(), "ce5fe361b414ccc2c829c0489d2d7766322b7000aef45cced1c5a9db6b88f6a8"),
        (SHUFFLED, "018dce6d08399dd1cef2355713e702fb3dca377b79e4a75f090004aed39e9403"),
    ],
)
def test_the_published_generator_made_the_same(configuration, digest):
    """Our reading of the rules might be wrong in the same way twice: the digests are of a run of the published code."""
    text = "".join(
        f"{kind} {id if id is not None else '-'} {time}\n" for kind, id, time in generated(configuration, 20_000)
    )
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_an_event_is_the_same_in_any_batch(configuration):
    """A job that is restored in the middle would emit other events than before."""
    generator = NexmarkGenerator(configuration)
    whole = generator.events(0, 1200)
    whole.validate(full=True)
    for first, count in ((0, 1), (1, 0), (17, 500), (999, 201)):
        part = generator.events(first, count)
        part.validate(full=True)
        assert part.to_pylist() == whole.slice(first, count).to_pylist()


def test_columns_do_not_depend_on_the_others():
    """A query that reads fewer columns would see other values."""
    whole = NexmarkGenerator(NexmarkConfiguration()).events(0, 700).to_pylist()
    for field in event_schema():
        alone = NexmarkGenerator(NexmarkConfiguration(), pyarrow.schema([field])).events(0, 700)
        assert alone.column(0).to_pylist() == [event[field.name] for event in whole]
        for part in field.type if pyarrow.types.is_struct(field.type) else ():
            schema = pyarrow.schema([pyarrow.field(field.name, pyarrow.struct([part]))])
            one = NexmarkGenerator(NexmarkConfiguration(), schema).events(0, 700).column(0).to_pylist()
            assert one == [row and {part.name: row[part.name]} for row in (event[field.name] for event in whole)]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_have_the_unit_of_the_schema(unit):
    """A table with TIMESTAMP(3) would have to convert each batch."""
    times = pyarrow.timestamp(unit)
    schema = pyarrow.schema(
        [("dateTime", times), ("auction", pyarrow.struct([("expires", times), ("dateTime", times)]))]
    )
    usual = NexmarkGenerator(NexmarkConfiguration()).events(0, 100).to_pylist()
    for found, event in zip(
        NexmarkGenerator(NexmarkConfiguration(), schema).events(0, 100).to_pylist(), usual, strict=True
    ):
        assert found["dateTime"] == event["dateTime"]
        if event["auction"]:
            assert found["auction"]["expires"] == event["auction"]["expires"]


@pytest.fixture(scope="module")
def many() -> dict[str, list[dict]]:
    rows = NexmarkGenerator(NexmarkConfiguration(seed=11)).events(0, 100_000).to_pylist()
    return {kind: [event[kind] for event in rows if event[kind]] for kind in KINDS}


def test_bids_have_the_published_distributions(many):
    """Hot keys, distinct values and sizes decide what queries cost: other ones would be another benchmark."""
    bids = many["bid"]
    assert len(bids) == 92_000
    hot = sum(bid["auction"] % 100 == 0 for bid in bids) / len(bids)
    assert 0.5 < hot < 0.52
    assert 0.74 < sum(bid["bidder"] % 100 == 1 for bid in bids) / len(bids) < 0.77
    assert 0.49 < sum(not bid["channel"].startswith("channel-") for bid in bids) / len(bids) < 0.51
    assert len({bid["channel"] for bid in bids}) == pytest.approx(10_004, abs=200)
    urls = {bid["channel"]: bid["url"] for bid in bids}
    assert all(urls[bid["channel"]] == bid["url"] for bid in bids)
    assert 0.88 < sum("&channel_id=" in url for url in urls.values()) / len(urls) < 0.92
    logs = numpy.log10([bid["price"] for bid in bids])
    assert logs.min() >= 2 and logs.max() <= 8 and logs.mean() == pytest.approx(5, abs=0.02)
    assert logs.std() == pytest.approx(6 / 12**0.5, abs=0.02)
    sizes = [len(bid["extra"]) for bid in bids]
    assert (min(sizes), max(sizes)) == (54, 81) and numpy.mean(sizes) == pytest.approx(67.5, abs=0.1)
    for number, bid in enumerate(bids):
        last = number // 46 * 3 + 5 + 1000
        assert max(1000, last - 106) // 100 * 100 <= bid["auction"] <= last + 10


def test_auctions_have_the_published_distributions(many):
    """See above."""
    auctions = many["auction"]
    assert [auction["id"] for auction in auctions] == list(range(1001, 1001 + len(auctions)))
    assert {auction["category"] for auction in auctions} == set(range(10, 15))
    assert 0.74 < sum(auction["seller"] % 100 == 0 for auction in auctions) / len(auctions) < 0.77
    assert all(auction["reserve"] > auction["initialBid"] for auction in auctions)
    lengths = [milliseconds(auction["expires"]) - milliseconds(auction["dateTime"]) for auction in auctions]
    assert min(lengths) >= 1 and max(lengths) <= 334 and numpy.mean(lengths) == pytest.approx(167, abs=4)
    for name, longest in (("itemName", 19), ("description", 99)):
        texts = [auction[name] for auction in auctions]
        assert max(map(len, texts)) == longest and all(text == text.strip(" ") for text in texts)
        assert numpy.mean([len(text) for text in texts]) == pytest.approx((3 + longest) / 2, abs=0.9)
        assert "".join(texts).count(" ") / sum(map(len, texts)) == pytest.approx(1 / 13, abs=0.015)
    sizes = [
        48 + len(auction["itemName"]) + len(auction["description"]) + len(auction["extra"]) for auction in auctions
    ]
    assert numpy.mean(sizes) == pytest.approx(500, abs=4)


def test_people_have_the_published_distributions(many):
    """See above."""
    people = many["person"]
    assert len({person["name"] for person in people}) == 99
    assert len({(person["city"], person["state"]) for person in people}) == 60
    for person in people:
        groups = person["creditCard"].split(" ")
        assert len(groups) == 4 and all(len(group) == 4 and group.isdigit() for group in groups)
        user, at, domain = person["emailAddress"].partition("@")
        assert at and len(user) <= 6 and domain.endswith(".com") and len(domain) <= 8
    sizes = [8 + sum(len(person[name]) for name in person if name not in ("id", "dateTime")) for person in people]
    assert numpy.mean(sizes) == pytest.approx(200, abs=3)


def test_a_seed_changes_what_is_random_only():
    """Two tables of a program would have equal events; or a seed would change the number of rows of results."""
    one, other = (NexmarkGenerator(NexmarkConfiguration(seed=seed)).events(0, 2000).to_pylist() for seed in (1, 2))
    same = [a == b for a, b in zip(one, other, strict=True)]
    assert not any(same)
    assert [event["event_type"] for event in one] == [event["event_type"] for event in other]


def test_slices_are_those_of_a_text():
    """Arrow has another form for texts of at most 12 bytes."""
    random = numpy.random.default_rng(1)
    text = random.integers(97, 123, 1000 + SPARE_BYTES).astype(numpy.uint8)
    starts = random.integers(0, 1000, 3000)
    sizes = numpy.minimum(random.integers(0, 40, 3000), 1000 - starts)
    found = slices(text, starts, sizes)
    found.validate(full=True)
    known = bytes(text).decode()
    assert found.to_pylist() == [known[start : start + size] for start, size in zip(starts, sizes, strict=True)]


@pytest.mark.parametrize("count", [0, 1, 49, 50, 123, 1000])
@pytest.mark.parametrize("splits", [1, 2, 7])
def test_every_event_is_in_one_split(count, splits):
    """Events would be lost or doubled at another parallelism."""
    found = []
    for split in dealt(count, 50, splits):
        rest = split
        while rest is not None:
            numbers, rest = rest.take(13)
            found += numbers.tolist()
    assert sorted(found) == list(range(count))


def test_conformance():
    """A restart would lose or double events."""
    check_source(lambda: NexmarkSource.builder().set_event_count(70).build(), max_records=7)


def test_records_are_the_same_on_columns():
    """A program would have other results with `as_columns`."""
    source = NexmarkSource.builder().set_event_count(300).build()
    columns = RecordColumns(source.get_produced_type()).only(["bid", "dateTime"])
    rows = read_all(source, 1)
    reader = source.on_columns(columns).create_reader(CONTEXT)
    reader.add_splits(dealt(300, 50, 1))
    batches = [reader.poll(200), reader.poll(200)]
    assert [len(batch.timestamps) for batch in batches] == [200, 100]
    assert [row for batch in batches for row in columns.reader()(batch.values)] == [
        type(row)(bid=row.bid, dateTime=row.dateTime) for row in rows
    ]


def test_columns_that_events_lack_are_converted():
    """A column of another type would be read wrongly."""
    source = NexmarkSource.builder().set_event_count(1).build()
    for field in (
        ("n", pyarrow.int64()),
        ("event_type", pyarrow.int64()),
        ("bid", pyarrow.struct([("x", pyarrow.int64())])),
    ):
        assert source.on_columns(RecordColumns(pyarrow.schema([field]))) is None
        with pytest.raises(ValueError, match=f"no column '{field[0]}'"):
            NexmarkGenerator(NexmarkConfiguration(), pyarrow.schema([field]))


def test_a_source_without_a_count_has_no_end():
    """AUTOMATIC mode would select a batch job that never ends."""
    assert NexmarkSource.builder().build().get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert NexmarkSource.builder().set_event_count(5).build().get_boundedness() is Boundedness.BOUNDED


@pytest.mark.parametrize("sizes", [[1], [3, 10, 7], [500, 2]])
def test_events_that_are_generated_ahead_are_the_same(sizes):
    """A source with a rate reads a few events of one split, then of another, and may begin anywhere."""
    generator = NexmarkGenerator(SHUFFLED)
    ahead = EventsAhead(generator, ahead=64)
    splits = {split.split_id: split for split in dealt(1_000, 20, 2)}
    read = {name: [] for name in splits}
    for turn in range(2_000):
        name = f"nexmark-{turn % 2}"
        if (split := splits.get(name)) is None:
            continue
        if turn == 70:
            split = split.behind(5)  # as if restored at another position
            read[name] += rows_at(generator, splits[name].take(5)[0])
        batch, times_ms, rest = ahead.take(split, sizes[turn // 2 % len(sizes)])
        read[name] += zip(batch.to_pylist(), times_ms.tolist(), strict=True)
        if rest is None:
            del splits[name]
        else:
            splits[name] = rest
    assert not splits
    for split in dealt(1_000, 20, 2):
        assert read[split.split_id] == rows_at(generator, split.take(1_000)[0])


def rows_at(generator, positions):
    batch, times_ms = generator.timed_events_at(positions)
    return list(zip(batch.to_pylist(), times_ms.tolist(), strict=True))


def test_the_rate_is_limited():
    """A measurement of latency would measure a full queue."""
    builder = NexmarkSource.builder().set_event_count(1000)
    run = SourceRun(builder.set_rate_limiter_strategy(RateLimiterStrategy.per_second(1)).build(), 1)
    run.start()
    assert len(run.read_polls(1, 500)) <= 1


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: NexmarkConfiguration(bid_proportion=-1), ValueError, "bid_proportion must be an int from 0"),
        (lambda: NexmarkConfiguration(hot_auction_ratio=0), ValueError, "hot_auction_ratio must be an int from 1"),
        (lambda: NexmarkConfiguration(event_rate=0), ValueError, "event_rate must be a number"),
        (
            lambda: NexmarkConfiguration(person_proportion=0, auction_proportion=0, bid_proportion=0),
            ValueError,
            "all proportions are 0",
        ),
        (lambda: NexmarkSource.builder().set_event_count(-1), ValueError, "event_count must be an int of at least 0"),
        (lambda: NexmarkSource.builder().set_configuration({}), TypeError, "expected a NexmarkConfiguration"),
        (lambda: NexmarkSource.builder().set_rate_limiter_strategy(5), TypeError, "expected a RateLimiterStrategy"),
        (lambda: NexmarkGenerator(NexmarkConfiguration()).events(0, EVENTS_MAX + 1), ValueError, "a batch has at most"),
    ],
)
def test_wrong_arguments_are_named(make, error, words):
    """The mistake would appear in a worker's log instead of the line that made it."""
    with pytest.raises(error, match=words):
        make()
