"""Part files in S3: uploaded in parts under their final name, published by completing the upload.

S3 cannot append to an object, and its rename is a copy. But the parts of an upload stay until it is completed or
aborted, and readers do not see them before. A part has at least 5 MiB, so a checkpoint contains the bytes that are not
uploaded yet; after a restart the uploaded parts become a file, and the remaining bytes begin the next one. Thus only
one attempt writes to an upload. Source: Flink, `S3RecoverableWriter`.
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
"""An upload has at most 10,000 parts. They grow after each thousand, so an object may have 275 GiB."""

Part = tuple[int, str]
"""The number of a part, from 1, and its tag from the store."""


@stored_as("pending-upload")
class PendingUpload(Located, frozen=True):
    """A committable: an upload whose parts become an object (path or URL)."""

    final_path: str
    upload_id: str
    parts: tuple[Part, ...]
    is_persisted: bool
    """Whether a checkpoint may name the upload as in progress: then it stays if its attempt fails."""
    replaced: tuple[str, ...] = ()
    """Hidden files whose content this object contains: its commit removes them."""


@stored_as("upload-in-progress")
class UploadInProgress(Located, frozen=True):
    """The state of an upload: its uploaded parts, if any, and the bytes that are not uploaded yet."""

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
    """Buffer written bytes, and upload them as a part as soon as they suffice for one.

    A part ends at the end of a `write` call, so the parts of an upload contain whole records.
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
        """Upload the buffered bytes as a part.

        All parts but the last must have 5 MiB; an object has at least one part.
        """
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
        """Remove the parts. The store itself removes them only by a life cycle rule."""
        if self.upload_id:
            self._client.abort_multipart_upload(**self._object, UploadId=self.upload_id)


def client_of(base_path: str) -> Any:
    """Return a client for the store of this path, or None if it is not S3 or boto3 is not installed."""
    return s3_client(base_path) if resolve(base_path)[0].type_name == "s3" else None


def location_of(base_path: str, path: str) -> dict[str, str]:
    """Return bucket and key of an object, with boto3's names."""
    bucket, key = bucket_and_key(resolve_below(base_path, path)[1])
    return {"Bucket": bucket, "Key": key}
