"""From files to files: read CSV, filter records, write JSON lines.

Part files appear under their final names when they are complete: readers of the directory see each line once.

    penstock run examples/files.py                           creates and reads two small files
    penstock run examples/files.py 'logs/*.csv.gz' out
"""

import sys
import tempfile
from pathlib import Path

from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat

if len(sys.argv) == 3:
    source, target = sys.argv[1:]
else:
    work = Path(tempfile.mkdtemp(prefix="penstock-"))
    (work / "monday.csv").write_text("url,status\n/home,200\n/old,404\n")
    (work / "tuesday.csv").write_text("url,status\n/home,200\n/shop,500\n/old,404\n")
    source, target = f"{work}/*.csv", str(work / "errors")

env = StreamExecutionEnvironment.get_execution_environment()

requests = FileSource.for_record_stream_format(StreamFormat.csv_format(types={"status": int}), source).build()
errors = (
    FileSink.for_row_format(target, Encoder.json_encoder())
    .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    .build()
)

env.add_source(requests, "requests").filter(lambda request: request["status"] >= 400).sink_to(errors)
env.execute("files to files")

for path in sorted(Path(target).glob("part-*")):
    print(path.name, path.read_text(), sep="\n", end="")
