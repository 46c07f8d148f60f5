"""Known differences between what penstock reads and what a reference does, each with its reason.

The command fails for a difference that is not here, and for one here that is no more.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.corpora.case import Outcome, Verdict


class Known(NamedTuple):
    """`files`: names in the corpus, or patterns of them."""

    verdict: Verdict
    reason: str
    files: tuple[str, ...]


_SURROGATE = "half of a surrogate pair is not a character: no text in UTF-8 can hold it"
_BOTH = " as a *"
_DUCKDB_PARQUET = "data/parquet-testing"
KNOWN: dict[str, list[Known]] = {
    "csv-spectrum": [
        Known(
            Verdict.OTHER_ROWS,
            "the values expected are not those of the file: another number, and line ends that Git has changed",
            ("location_coordinates.csv", "newlines_crlf.csv"),
        ),
    ],
    "JSONTestSuite": [
        Known(
            Verdict.REFUSED_HERE,
            "the number is greater than any float: Python's JSON makes infinity of it",
            tuple(
                f"test_parsing/i_number_{name}.json{_BOTH}"
                for name in ("huge_exp", "neg_int_huge_exp", "pos_double_huge_exp", "real_*_overflow")
            ),
        ),
        Known(
            Verdict.REFUSED_HERE,
            _SURROGATE,
            (
                f"test_parsing/i_string_*surrogate*{_BOTH}",
                f"test_parsing/i_object_key_lone_2nd_surrogate.json{_BOTH}",
                f"test_transform/string_*_escaped_invalid_codepoint*{_BOTH}",
            ),
        ),
        Known(
            Verdict.READ_HERE,
            "a byte-order mark before the text is left out, as editors on Windows write it",
            (f"test_parsing/i_structure_UTF-8_BOM_empty_object.json{_BOTH}",),
        ),
        Known(
            Verdict.READ_HERE,
            "a file of lines without a value has no records",
            ("test_parsing/n_single_space.json as a line", "test_parsing/n_structure_UTF8_BOM_no_data.json as a line"),
        ),
    ],
    "fastavro": [
        Known(
            Verdict.READ_HERE,
            "Java writes names of inner classes, with a dollar, which Apache's package for Python refuses",
            tuple(f"tests/avro-files/{name}.avro" for name in ("double_float", "lines", "part-00000", "test")),
        ),
    ],
    "avro": [
        Known(
            Verdict.REFUSED_HERE,
            "an entry of the file's metadata is not a text, and fastavro reads all of them as texts",
            ("share/test/data/syncInMeta.avro",),
        ),
    ],
    "duckdb": [
        Known(
            Verdict.OTHER_ROWS,
            "a VARIANT is read as it is stored, metadata and value, as pyarrow has it",
            (f"{_DUCKDB_PARQUET}/variant_*.parquet", f"{_DUCKDB_PARQUET}/snowflake_variant.parquet"),
        ),
        Known(Verdict.READ_HERE, "DuckDB has no such VARIANT", (f"{_DUCKDB_PARQUET}/variant_*.parquet",)),
        Known(
            Verdict.REFUSED_HERE,
            "a VARIANT that is stored as times with nanoseconds, which Python's times do not have",
            (f"{_DUCKDB_PARQUET}/variant_shredded_timestamp_nanos_ntz_*.parquet",),
        ),
        Known(
            Verdict.OTHER_ROWS,
            "DuckDB renames columns that have no name, or names that differ in their case only",
            (f"{_DUCKDB_PARQUET}/silly-names.parquet", f"{_DUCKDB_PARQUET}/bug13053.parquet"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "two columns have one name, of which a record has one value: DuckDB renames the second",
            (f"{_DUCKDB_PARQUET}/bug13053-2.parquet",),
        ),
        Known(
            Verdict.OTHER_ROWS,
            "an ENUM is read as its bytes, as pyarrow has it",
            (f"{_DUCKDB_PARQUET}/complex.parquet", f"{_DUCKDB_PARQUET}/enum.parquet"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "a decimal of 77 digits, or of no bytes, which Arrow does not have",
            (
                f"{_DUCKDB_PARQUET}/bigdecimal.parquet",
                f"{_DUCKDB_PARQUET}/decimal/byte_array_decimal_empty_value.parquet",
            ),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "DuckDB leaves out a comment behind values, and one behind spaces",
            ("data/csv/comments/*mid*line*.csv", "data/csv/comments/empty_space.csv"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "DuckDB leaves out spaces between a quoted value and the delimiter: RFC 4180 has none there",
            ("data/csv/14512.csv", "data/csv/empty_space_start_value.csv"),
        ),
        Known(
            Verdict.OTHER_ROWS,
            "a value that begins with a space is not quoted: DuckDB leaves out the space",
            ("data/csv/validator/quoted_new_value.csv",),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "a record has one field more than the header, an empty one: DuckDB leaves it out, as `surplus_fields` does",
            ("data/csv/bug_12596.csv", "data/csv/afl/no_parameter/18.csv"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "a field has more than 131,072 characters",
            ("data/csv/issue_8320_*.csv.gz", "data/csv/*line_too_long*.csv.gz"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "a quoted value is not closed",
            ("data/csv/multidelimiter/unterminated_*escape.csv",),
        ),
    ],
    "parquet-testing": [
        Known(
            Verdict.OTHER_ROWS,
            "a VARIANT is read as it is stored, metadata and value, as pyarrow has it",
            ("shredded_variant/*.parquet",),
        ),
        Known(
            Verdict.READ_HERE,
            "DuckDB has no such VARIANT, encoding or map",
            ("shredded_variant/*.parquet", "data/byte_stream_split_extended.gzip.parquet", "data/map_no_value.parquet"),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "damaged on purpose: DuckDB verifies neither checksums nor the number of levels",
            (
                "bad_data/ARROW-RS-GH-6229-LEVELS.parquet",
                "data/datapage_v1-corrupt-checksum.parquet",
                "data/rle-dict-uncompressed-corrupt-checksum.parquet",
            ),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "its schema is wrong on purpose: keys of the map may be missing",
            ("data/incorrect_map_schema.parquet",),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "a VARIANT that is stored as times with nanoseconds, which Python's times do not have",
            ("shredded_variant/case-035.parquet", "shredded_variant/case-036.parquet"),
        ),
    ],
    "orc": [
        Known(
            Verdict.REFUSED_HERE,
            "its rows are times and not structs: they have no columns",
            ("examples/TestOrcFile.testTimestamp.orc",),
        ),
        Known(
            Verdict.REFUSED_HERE,
            "it has nanoseconds, which Python's times do not have: the error says how they are read",
            ("examples/TestOrcFile.testUnionAndTimestamp.orc",),
        ),
    ],
}


class Differences:
    """Those of one corpus, and which of them were seen."""

    def __init__(self, corpus: str) -> None:
        self._known = KNOWN.get(corpus, [])
        self._seen: set[tuple[str, Verdict]] = set()

    def reason(self, outcome: Outcome) -> str | None:
        """Why it is so; None: it is not known."""
        for one in self._known:
            for pattern in one.files:
                if one.verdict is outcome.verdict and fnmatchcase(outcome.name, pattern):
                    self._seen.add((pattern, one.verdict))
                    return one.reason
        return None

    def unseen(self) -> list[tuple[str, Verdict]]:
        """What no outcome was like."""
        every = [(pattern, one.verdict) for one in self._known for pattern in one.files]
        return [one for one in every if one not in self._seen]
