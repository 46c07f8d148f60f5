"""The schemas of a registry, in a file to which each new one is appended."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from penstock.connectors.formats.avro_schema import fastavro
from penstock.testing.schema_registry.compatibility import LEVELS, incompatibilities


class RefusedError(Exception):
    """An error: `status` of HTTP, and the registry's own code."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Schemas:
    """Stores schemas, safe for threads. Methods raise RefusedError."""

    def __init__(self, file: Path, level: str) -> None:
        """`level`: the default compatibility of subjects."""
        self._file = file
        self._lock = threading.Lock()
        self._levels: dict[str, str] = {"": level}
        self._schemas: list[dict[str, Any]] = []
        """Schemas by id - 1."""
        self._subjects: dict[str, list[int]] = {}
        """The ids of the versions of each subject, from the first on."""
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._apply(json.loads(line))

    @property
    def subjects(self) -> list[str]:
        """Return the subjects that have a schema."""
        return sorted(self._subjects)

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, from 1 on."""
        return list(range(1, len(self._of(subject)) + 1))

    def version(self, subject: str, version: str) -> dict[str, Any]:
        """Return the schema of one version, a number or `latest`."""
        ids = self._of(subject)
        number = len(ids) if version in ("latest", "-1") else int(version) if version.isdecimal() else 0
        if not 1 <= number <= len(ids):
            raise RefusedError(404, 40402, f"Version {version} not found.")
        return self._described(subject, number)

    def by_id(self, schema_id: int) -> dict[str, Any]:
        """Return the schema of an id."""
        if not 1 <= schema_id <= len(self._schemas):
            raise RefusedError(404, 40403, f"Schema {schema_id} not found")
        return self._schemas[schema_id - 1]

    def look_up(self, subject: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the version of a subject that is this schema."""
        wanted = self._checked(given)
        for number, schema_id in enumerate(self._of(subject), 1):
            if self._schemas[schema_id - 1] == wanted:
                return self._described(subject, number)
        raise RefusedError(404, 40403, "Schema not found")

    def register(self, subject: str, given: dict[str, Any]) -> int:
        """Register a schema as a version of the subject, and return its id.

        Equal schemas have one id in all subjects.
        """
        with self._lock:
            wanted = self._checked(given)
            ids = self._subjects.get(subject, [])
            known = next((one + 1 for one, schema in enumerate(self._schemas) if schema == wanted), None)
            if known in ids:
                assert known is not None
                return known
            faults = self.faults(subject, given)
            if faults:
                raise RefusedError(
                    409, 409, "Schema being registered is incompatible with an earlier schema for the subject"
                )
            schema_id = known or len(self._schemas) + 1
            self._keep({"subject": subject, "id": schema_id, "schema": wanted})
            return schema_id

    def faults(self, subject: str, given: dict[str, Any]) -> list[str]:
        """Return the objections of the subject's level to this schema as the next version."""
        wanted, ids = self._checked(given), self._subjects.get(subject)
        if not ids:
            return []
        old = self._schemas[ids[-1] - 1]
        named = self._named(old) | self._named(wanted)
        return incompatibilities(self.level(subject), json.loads(wanted["schema"]), json.loads(old["schema"]), named)

    def level(self, subject: str = "") -> str:
        """Return the level of compatibility."""
        return self._levels.get(subject, self._levels[""])

    def set_level(self, subject: str, level: str) -> None:
        """Set the level of a subject, or, if it is '', the default level."""
        if level not in LEVELS:
            raise RefusedError(422, 42203, f"Invalid compatibility level: this registry has {sorted(LEVELS)}")
        with self._lock:
            self._keep({"subject": subject, "level": level})

    def _of(self, subject: str) -> list[int]:
        if subject not in self._subjects:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _described(self, subject: str, number: int) -> dict[str, Any]:
        schema_id = self._subjects[subject][number - 1]
        return {"subject": subject, "version": number, "id": schema_id, **self._schemas[schema_id - 1]}

    def _keep(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._apply(line)

    def _apply(self, line: dict[str, Any]) -> None:
        if "level" in line:
            self._levels[line["subject"]] = line["level"]
            return
        if line["id"] > len(self._schemas):
            self._schemas.append(line["schema"])
        self._subjects.setdefault(line["subject"], []).append(line["id"])

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of a schema, without insignificant spaces."""
        package = fastavro()
        if given.get("schemaType", "AVRO") != "AVRO":
            raise RefusedError(422, 42201, "Invalid schema: this registry knows AVRO only")
        try:
            wanted = {"schema": json.dumps(json.loads(given["schema"]), separators=(",", ":"))}
            if given.get("references"):
                wanted["references"] = given["references"]
            package.parse_schema(json.loads(wanted["schema"]), self._named(wanted))
        except (package.schema.SchemaParseException, package.schema.UnknownType, KeyError, TypeError, ValueError) as e:
            raise RefusedError(422, 42201, f"Invalid schema: {e!r}") from None
        return wanted

    def _named(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the types to which a schema refers in others."""
        named: dict[str, Any] = {}
        for reference in schema.get("references", ()):
            referred = self.version(reference["subject"], str(reference["version"]))
            named |= self._named(referred)
            fastavro().parse_schema(json.loads(referred["schema"]), named)
        return named
