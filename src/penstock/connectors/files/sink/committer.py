"""Commit completed part files."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pyarrow import fs

from penstock.api.sink import Committer
from penstock.common.doors.extras import S3
from penstock.common.errors import DamagedCheckpointError, JobError
from penstock.common.files.durable import sync_parent
from penstock.common.files.known_directory import KnownDirectory, store_unavailable
from penstock.common.files.s3 import error_code
from penstock.common.text.secrets import without_secrets
from penstock.connectors.files.sink.renamed_files import PendingFile
from penstock.connectors.files.sink.uploads import PendingUpload, client_of, location_of
from penstock.connectors.files.storage import resolve, resolve_below

_log = logging.getLogger(__name__)

_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_COUNT_OF_PARTS = re.compile(r"-(\d+)\Z")
"""The number of parts, in the tag of an object that was uploaded in parts."""

Completed = PendingFile | PendingUpload


class FileCommitter(Committer):
    """Rename each file to its final name, or complete its upload.

    A rename is atomic on local disks and HDFS, and an object appears as a whole, so final names show only complete
    files. Commits are idempotent: a file that exists under its final name only is committed. After a recovery, a file
    that exists under neither name was committed and then removed by a reader. An upload is completed once: a job that
    continues from an earlier checkpoint completes it with fewer parts, and the later parts are lost.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, committables: Sequence[Completed]) -> None:
        """Publish files.

        Raise JobError if one exists under neither name, or was completed with fewer parts, DamagedCheckpointError if
        its size has changed, OSError if another file system has replaced the directory.
        """
        if committables and self._known.is_covered:
            raise store_unavailable(self._base_path)
        for file in committables:
            if not self._publish(file):
                what = file.pending_path if isinstance(file, PendingFile) else f"the upload {file.upload_id}"
                raise JobError(f"cannot commit {what} as {file.final_path}: neither exists")
        self._sync_and_remove(committables)

    def commit_again(self, committables: Sequence[Completed]) -> None:
        """Publish files not yet published. Raise JobError for an object with fewer parts, or DamagedCheckpointError.

        Raise JobError also if the base directory is missing, or is another one than before.
        """
        for file in committables:
            if not self._publish(file):
                if isinstance(file, PendingFile) and self._known.is_unavailable:
                    raise JobError(f"cannot commit {file.pending_path}: {store_unavailable(self._base_path)}")
                _log.warning("%s was committed before and removed since", without_secrets(file.final_path))
        self._sync_and_remove(committables)

    def abort(self, committables: Sequence[Completed]) -> None:
        """Remove the hidden files, ignoring errors, except committed files and those that a checkpoint may name."""
        for file in committables:
            if file.is_persisted:
                continue
            if isinstance(file, PendingFile):
                self._remove(file.pending_path)
            else:
                # Any exception of boto3, which may not be installed here.
                with contextlib.suppress(Exception):
                    location = location_of(self._base_path, file.final_path)
                    self._client.abort_multipart_upload(**location, UploadId=file.upload_id)

    @cached_property
    def _known(self) -> KnownDirectory:
        return KnownDirectory(*resolve(self._base_path))

    @cached_property
    def _client(self) -> Any:
        client = client_of(self._base_path)
        if client is None:
            raise JobError(f"committing files to {self._base_path} needs boto3: pip install '{S3}'")
        return client

    def _publish(self, file: Completed) -> bool:
        """Publish the file if needed. Return False if it exists under neither name."""
        if not isinstance(file, PendingFile):
            return self._complete(file)
        is_published = self._rename(file)
        if is_published:
            self._known.identify()
        return is_published

    def _rename(self, file: PendingFile) -> bool:
        file_system, pending = resolve_below(self._base_path, file.pending_path)
        final = resolve_below(self._base_path, file.final_path)[1]
        found = file_system.get_file_info(pending)
        if found.type is not fs.FileType.File:
            return file_system.get_file_info(final).type is fs.FileType.File
        # A power failure can truncate a file that was closed but not synced to disk.
        if found.size is not None and found.size != file.size:
            raise DamagedCheckpointError(
                f"cannot commit {file.pending_path} as {file.final_path}: it has {found.size} bytes, but had "
                f"{file.size} when it was closed. The file system has lost data"
            )
        file_system.move(pending, final)
        return True

    def _complete(self, upload: PendingUpload) -> bool:
        location = location_of(self._base_path, upload.final_path)
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in upload.parts]
        try:
            answer = self._client.complete_multipart_upload(
                **location, UploadId=upload.upload_id, MultipartUpload={"Parts": parts}
            )
        except Exception as error:
            if error_code(error) != "NoSuchUpload":
                raise
            # The upload was completed before, or aborted.
            try:
                answer = self._client.head_object(**location)
            except Exception as unknown:
                if error_code(unknown) not in _NO_OBJECT:
                    raise
                return False
        # Some stores also report success for an upload that was completed before, with other parts. A copied object may
        # have another tag.
        count = _COUNT_OF_PARTS.search(answer.get("ETag", "").strip('"'))
        if count is not None and int(count[1]) != len(parts):
            raise JobError(
                f"{without_secrets(upload.final_path)} was completed with {count[1]} of its {len(parts)} parts, and "
                "the others are lost: a run continued it from an earlier checkpoint. Either another job started "
                "from a checkpoint of this one while this one ran: start it from a savepoint; or the job failed "
                "after this savepoint and was restored from the checkpoint before it. Start again from a later one"
            )
        return True

    def _sync_and_remove(self, committables: Sequence[Completed]) -> None:
        """Sync the final names to disk, also those of an earlier try: later runs do not commit these files again."""
        synced = set()
        for file in committables:
            file_system, final = resolve_below(self._base_path, file.final_path)
            directory = final.rpartition("/")[0]
            if directory not in synced:
                synced.add(directory)
                with contextlib.suppress(FileNotFoundError):
                    sync_parent(file_system, final)
        # After the names of the files that replace them.
        for path in (path for file in committables for path in file.replaced):
            self._remove(path)

    def _remove(self, path: str) -> None:
        file_system, inner = resolve_below(self._base_path, path)
        with contextlib.suppress(OSError):
            file_system.delete_file(inner)
