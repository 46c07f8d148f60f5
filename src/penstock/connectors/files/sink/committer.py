"""Commits completed part files."""

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
from penstock.common.files.known_directory import KnownDirectory, store_away
from penstock.common.files.s3 import error_code
from penstock.common.text.secrets import without_passwords
from penstock.connectors.files.sink.renamed_files import PendingFile
from penstock.connectors.files.sink.uploads import PendingUpload, client_of, location_of
from penstock.connectors.files.storage import resolve, resolve_below

_log = logging.getLogger(__name__)

_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_COUNT_OF_PARTS = re.compile(r"-(\d+)\Z")
"""In the tag of an object that was uploaded in parts."""

Completed = PendingFile | PendingUpload


class FileCommitter(Committer):
    """Renames each file to its final name, or completes its upload.

    A rename is atomic on local disks and HDFS, and an object appears as a whole, so readers of final names see complete
    files only. Commits are idempotent: a file that exists under its final name only is committed. After a recovery, a
    file that exists under neither name was committed and then removed by a reader. An upload is completed once: whoever
    goes on from an earlier checkpoint completes it with fewer parts, and the rest of it is lost.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, committables: Sequence[Completed]) -> None:
        """Publish files.

        Raises JobError if one exists under neither name, or as less than it was, DamagedCheckpointError if its size is
        not what it was, OSError if another file system has taken the place of the directory.
        """
        if committables and self._known.is_covered:
            raise store_away(self._base_path)
        for file in committables:
            if not self._publish(file):
                what = file.pending_path if isinstance(file, PendingFile) else f"the upload {file.upload_id}"
                raise JobError(f"can't commit {what} as {file.final_path}: neither file exists")
        self._end(committables)

    def commit_again(self, committables: Sequence[Completed]) -> None:
        """Publish files not yet published. Raises JobError if one is less than it was, or DamagedCheckpointError.

        Raises JobError, too, if the directory of all is not there, or is another one than before.
        """
        for file in committables:
            if not self._publish(file):
                if isinstance(file, PendingFile) and self._known.is_away:
                    raise JobError(f"can't commit {file.pending_path}: {store_away(self._base_path)}")
                _log.warning("%s was committed before and has been removed since", without_passwords(file.final_path))
        self._end(committables)

    def abort(self, committables: Sequence[Completed]) -> None:
        """Remove the hidden files, ignoring errors; committed files remain, and those that a checkpoint may name."""
        for file in committables:
            if file.is_persisted:
                continue
            if isinstance(file, PendingFile):
                self._remove(file.pending_path)
            else:
                # Of boto3, which need not be installed here.
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
            self._known.note()
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
                f"can't commit {file.pending_path} as {file.final_path}: it has {found.size} bytes, but had "
                f"{file.size} when it was closed; the file system has lost data"
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
            # Completed before, or aborted.
            try:
                answer = self._client.head_object(**location)
            except Exception as unknown:
                if error_code(unknown) not in _NO_OBJECT:
                    raise
                return False
        # Stores may answer that it is completed, too, where that was before, and with other parts. Who copies an object
        # may give it another tag.
        count = _COUNT_OF_PARTS.search(answer.get("ETag", "").strip('"'))
        if count is not None and int(count[1]) != len(parts):
            raise JobError(
                f"{without_passwords(upload.final_path)} was completed with {count[1]} of its {len(parts)} parts, and "
                "the rest of it is lost: it was gone on with from an earlier checkpoint. Either another job started "
                "from a checkpoint of this one, which ran on: let it start from a savepoint; or the job has failed "
                "behind this savepoint, and has gone back to the checkpoint before it. Start again from a later one"
            )
        return True

    def _end(self, committables: Sequence[Completed]) -> None:
        """Have the final names on disk, those of an earlier try, too: afterwards no run commits these files again."""
        synced = set()
        for file in committables:
            file_system, final = resolve_below(self._base_path, file.final_path)
            directory = final.rpartition("/")[0]
            if directory not in synced:
                synced.add(directory)
                with contextlib.suppress(FileNotFoundError):
                    sync_parent(file_system, final)
        # Behind the names of what has replaced them.
        for path in (path for file in committables for path in file.replaced):
            self._remove(path)

    def _remove(self, path: str) -> None:
        file_system, inner = resolve_below(self._base_path, path)
        with contextlib.suppress(OSError):
            file_system.delete_file(inner)
