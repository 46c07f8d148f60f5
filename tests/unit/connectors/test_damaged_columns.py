"""Parquet and ORC files that are damaged or encrypted: an error that names the file, and never other values."""

import base64
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq
from pyarrow.parquet import encryption

from penstock.common.errors import SourceError
from penstock.connectors.files.formats.parquet_format import ParquetWriterFactory
from penstock.connectors.files.formats.selected_columns import FileColumns
from penstock.connectors.files.sink.compaction import BadInputError
from penstock.connectors.files.sink.parquet_compactor import ParquetFileCompactor
from penstock.connectors.files.source import BulkFormat
from penstock.connectors.files.split import FoundFile, whole

SHARED = Path(__file__).parents[3].parent / "shared/cases/data-in/data"
ROWS = 60
NUMBERS = pa.table({"n": list(range(ROWS)), "text": [f"text {n}" for n in range(ROWS)]})


def read(path, file_format=None):
    """All records of a file, after the check that a job makes when it is submitted."""
    file_format = file_format or BulkFormat.parquet_format()
    file = FoundFile(str(path), path.stat().st_size)
    file_format.check(file)
    return [value for chunk in file_format.read(whole(file), lambda count: None) for value in chunk.values]


def damaged(path, old, new):
    """Replace the last occurrence of some bytes."""
    data = path.read_bytes()
    at = data.rindex(old)
    path.write_bytes(data[:at] + new + data[at + len(old) :])


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_page_with_another_checksum_is_refused(tmp_path, compression, dictionary, version):
    """A bit that a disk has flipped would be another number, and nothing would say so."""
    path = tmp_path / "pages.parquet"
    pq.write_table(
        NUMBERS, path, compression=compression, use_dictionary=dictionary, data_page_version=version,
        write_page_checksum=True,
    )  # fmt: skip
    assert read(path) == NUMBERS.to_pylist()
    # The end of a page, which is data in every encoding and compression.
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    offset = column.data_page_offset
    if column.dictionary_page_offset:
        offset = column.dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(data)

    with pytest.raises(SourceError, match=r"pages\.parquet: cannot read row group 0: .*CRC checksum"):
        read(path)


def test_what_penstock_writes_has_checksums(tmp_path):
    """A damaged file of a sink would be read as other values, by whichever program."""
    paths = [tmp_path / "a.parquet", tmp_path / "compacted.parquet"]
    with paths[0].open("wb") as out:
        writer = ParquetWriterFactory(NUMBERS.schema, compression=None).create(out)
        writer.add_elements(NUMBERS.to_pylist())
        writer.finish()
    with paths[0].open("rb") as file, paths[1].open("wb") as out:
        ParquetFileCompactor(compression=None).compact([file], out)

    for path in paths:
        damaged(path, b"text 59", b"text 69")
        with pytest.raises(SourceError, match="CRC checksum"):
            read(path)
    with paths[0].open("rb") as file, pytest.raises(BadInputError, match=r"cannot read row group 0: .*CRC checksum"):
        ParquetFileCompactor().compact([file], (tmp_path / "other").open("wb"))


def test_columns_that_pyarrow_leaves_out_are_refused(tmp_path):
    """Rows of a struct without fields would be a bare KeyError, which names no file."""
    path = tmp_path / "empty_struct.parquet"
    # As pyarrow reads a file with such a column, which it does not write.
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    columns = FileColumns(str(path), ["n", "nested"], ["n", "nested"], {})
    with pytest.raises(SourceError, match=r"empty_struct\.parquet: pyarrow cannot read the column 'nested'"):
        columns.records(batch, dict, 0)


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1])
def test_a_row_group_has_the_rows_of_the_footer(tmp_path, rows):
    """Rows would be missing, and the job would end as if it had read all."""
    path = tmp_path / "rows.parquet"
    pq.write_table(NUMBERS, path, use_dictionary=False, write_statistics=False)
    # The number of rows of a row group in Thrift's compact protocol: a field of type i64, zigzag.
    damaged(path, bytes([0x16, 2 * ROWS]), bytes([0x16, 2 * rows]))

    with pytest.raises(
        SourceError, match=rf"rows\.parquet: row group 0 .*the footer has {rows} rows, but the column n has 60 values"
    ):
        read(path)


def test_a_list_column_has_the_rows_of_the_footer(tmp_path):
    """Values of lists are not rows, so that the footer does not say how many there are: the rows are counted."""
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"items": [[n, n] for n in range(ROWS)]}), path, use_dictionary=False)
    damaged(path, bytes([0x16, 2 * ROWS]), bytes([0x16, 2 * ROWS + 2]))

    with pytest.raises(SourceError, match=r"lists\.parquet: row group 0 .*(the footer has 61 rows|cannot read)"):
        read(path)


class _Keys(encryption.KmsClient):
    """Keys that are wrapped by nothing."""

    def __init__(self, config):
        super().__init__()

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_files_are_refused(tmp_path, plain_footer):
    """pyarrow ends the whole worker by a signal on access to an encrypted column."""
    path = tmp_path / "secret.parquet"
    settings = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["text"]}, plaintext_footer=plain_footer
    )
    properties = encryption.CryptoFactory(_Keys).file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    with pq.ParquetWriter(path, NUMBERS.schema, encryption_properties=properties) as writer:
        writer.write_table(NUMBERS)

    with pytest.raises(SourceError, match=r"secret\.parquet: .*encrypted"):
        read(path, BulkFormat.parquet_format(["n"]))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_value_that_python_does_not_have_is_named_with_its_row(tmp_path, kind):
    """A bad row, or its file among thousands, could not be found."""
    days = pa.table({"n": range(5000), "day": pa.array([0] * 4321 + [2_932_897] + [0] * 678, pa.date32())})
    path = tmp_path / f"days.{kind}"
    if kind == "parquet":
        pq.write_table(days, path, row_group_size=1000)
    else:
        orc.write_table(days, path)

    with pytest.raises(SourceError, match=rf"days\.{kind}, row 4322, column 'day' \(date32"):
        read(path, getattr(BulkFormat, f"{kind}_format")())


def test_text_that_is_not_utf8_is_named_with_its_row(tmp_path):
    """Python's words about a byte say neither file nor column."""
    raw = pa.array([b"fine", b"Gr\xf6\xdfe"]).view(pa.string())
    path = tmp_path / "text.parquet"
    pq.write_table(pa.table({"text": raw}), path)

    with pytest.raises(SourceError, match=r"text\.parquet, row 2, column 'text' \(string\): the text is not UTF-8"):
        read(path)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_a_flipped_bit_in_the_footer_of_orc_loses_no_rows(tmp_path, compression):
    """A file that lacks a stripe, or some rows of one, would seem to be read to its end."""
    path = tmp_path / "bits.orc"
    orc.write_table(NUMBERS, path, compression=compression)
    sound, refused = path.read_bytes(), 0
    file = orc.ORCFile(path)
    for at in range(file.content_length + file.stripe_statistics_length, len(sound), 3):
        data = bytearray(sound)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        try:
            assert len(read(path, BulkFormat.orc_format())) == ROWS
        except SourceError as error:
            assert "bits.orc" in str(error)
            refused += 1

    assert refused


def test_empty_files_of_columns(tmp_path):
    """A failed upload would seem to be a table without rows; of ORC, it is one of Hive's."""
    path = tmp_path / "empty"
    path.touch()

    assert read(path, BulkFormat.orc_format(["n"])) == []
    with pytest.raises(SourceError, match=r"empty is not a Parquet file: .*0 bytes"):
        read(path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the files of other programs in ../shared/cases/data-in/data")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("datapage_v1-corrupt-checksum.parquet", "CRC checksum"),
        ("encrypt_columns_plaintext_footer.parquet.encrypted", "encrypted"),
        ("int96_from_spark.parquet", "row 6, column 'a'"),
        ("parquet_column_num_values_mismatch.parquet", "the footer has 8 rows, but the column x has 0 values"),
    ],
)
def test_damaged_files_of_other_programs_are_refused(name, words):
    """What other programs have written and damaged is not what this one would."""
    with pytest.raises(SourceError, match=words) as refused:
        read(SHARED / name)

    assert os.fspath(SHARED / name) in str(refused.value)
