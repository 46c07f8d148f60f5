"""Part files in S3: uploaded in parts under their final name, published by completing the upload.

An object can't be appended to, and a rename is a copy. But the parts of an upload stay where they are until it is
completed or aborted, and nobody sees them before. A part has 5 MiB at least, so a checkpoint holds what has not been
uploaded yet; after a restart the parts of before become a file, and the rest begins the next one. So an upload is
written to by one attempt only. Source: Flink, `S3RecoverableWriter`.
"""

from __future__ import annotations

import io
from typing import Any, cast

from penstock.common.files.s3 import bucket_and_key, s3_client
from penstock.common.stored import stored_as
from penstock.connectors.files.located import Located
from penstock.connectors.files.sink.recoverable import RecoverableFile, RecoverableWriter, Recovered
from penstock.connectors.files.sink.renamed_files import below
from penstock.connectors.files.storage import resolve, resolve_below

PART_BYTES_MIN = 5 << 20
_PARTS_OF_ONE_SIZE = 1_000
"""There may be 10,000 parts. After each thousand they grow: an object may have 275 GiB."""

Part = tuple[int, str]
"""Its number from 1, and the tag that the store has given it."""


@stored_as("pending-upload")
class PendingUpload(Located, frozen=True):
    """A committable: an upload of which these parts are to become an object (path or URL)."""

    final_path: str
    upload_id: str
    parts: tuple[Part, ...]
    is_persisted: bool
    """Whether a checkpoint may name it as an upload in progress: then it stays if its attempt fails."""
    replaced: tuple[str, ...] = ()
    """Hidden files whose content it has taken over: they are removed when it is committed."""


@stored_as("upload-in-progress")
class UploadInProgress(Located, frozen=True):
    """An upload of which a checkpoint holds these parts, and what was still to be uploaded. It may have no part yet."""

    final_path: str
    upload_id: str
    parts: tuple[Part, ...]
    rest: bytes


class Uploads(RecoverableWriter):
    """Objects below a base path in S3."""

    def __init__(self, base_path: str, client: Any) -> None:
        self._base_path = base_path
        self._inner_base = resolve(base_path)[1]
        self._client = client

    def open(self, path: str) -> Upload:
        return Upload(self._client, below(self._base_path, path), below(self._inner_base, path))

    def recover(self, persisted: UploadInProgress, path: str) -> Recovered:
        complete = []
        if persisted.parts:
            complete = [PendingUpload(persisted.final_path, persisted.upload_id, persisted.parts, True)]
        if not persisted.rest:
            return Recovered(complete, None)
        file = self.open(path)
        file.out.write(persisted.rest)
        return Recovered(complete, file)


class Upload(RecoverableFile):
    """An object that is being uploaded."""

    def __init__(self, client: Any, final_path: str, inner_path: str) -> None:
        self._final_path = final_path
        self._parts = _Parts(client, inner_path)
        self.out = cast(Any, self._parts)
        self._is_persisted = False

    def persist(self) -> UploadInProgress:
        parts = self._parts
        self._is_persisted = bool(parts.upload_id)
        return UploadInProgress(self._final_path, parts.upload_id, tuple(parts.uploaded), bytes(parts.rest))

    def finish(self) -> PendingUpload:
        self._parts.upload()
        self._parts.close()
        parts = self._parts
        return PendingUpload(self._final_path, parts.upload_id, tuple(parts.uploaded), self._is_persisted)

    def discard(self) -> None:
        self._parts.close()
        if not self._is_persisted:
            self._parts.abort()


class _Parts(io.RawIOBase):
    """Gathers what is written, and uploads it as a part as soon as there is enough for one.

    A part ends where a call of `write` did: the parts of an upload are whole records.
    """

    def __init__(self, client: Any, inner_path: str) -> None:
        self._client = client
        bucket, key = bucket_and_key(inner_path)
        self._object = {"Bucket": bucket, "Key": key}
        self._size = 0
        self.upload_id = ""
        self.uploaded: list[Part] = []
        self.rest = bytearray()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        self.rest += data
        written = memoryview(data).nbytes
        self._size += written
        if len(self.rest) >= PART_BYTES_MIN * (1 + len(self.uploaded) // _PARTS_OF_ONE_SIZE):
            self.upload()
        return written

    def upload(self) -> None:
        """Upload what there is, as a part: all but the last one must have 5 MiB. An object has one part at least."""
        if not self.upload_id:
            self.upload_id = self._client.create_multipart_upload(**self._object)["UploadId"]
        if self.rest or not self.uploaded:
            number = len(self.uploaded) + 1
            answer = self._client.upload_part(
                **self._object, UploadId=self.upload_id, PartNumber=number, Body=bytes(self.rest)
            )
            self.uploaded.append((number, answer["ETag"]))
            self.rest.clear()

    def abort(self) -> None:
        """Remove the parts. The store does so by itself only if its life cycle rules say it."""
        if self.upload_id:
            self._client.abort_multipart_upload(**self._object, UploadId=self.upload_id)


def client_of(base_path: str) -> Any:
    """A client for the store of this path. None: it is not S3, or boto3 is not installed."""
    return s3_client(base_path) if resolve(base_path)[0].type_name == "s3" else None


def location_of(base_path: str, path: str) -> dict[str, str]:
    """Bucket and key of an object, as boto3 calls them."""
    bucket, key = bucket_and_key(resolve_below(base_path, path)[1])
    return {"Bucket": bucket, "Key": key}
