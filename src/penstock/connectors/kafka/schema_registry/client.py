"""A registry's schemas: by the ids in messages, and those that are registered for a subject."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from penstock.connectors.kafka.schema_registry.access import Access
from penstock.connectors.kafka.schema_registry.requests import SchemaRegistryError, request
from penstock.formats.avro_schema import AvroSchema, fastavro

_NO_SUCH_SCHEMA = 40403
_INCOMPATIBLE = 409


class SchemaRegistryClient:
    """Asks once for each schema: those of ids do not change. Can be pickled; what it has learned stays behind.

    `capacity`: how many schemas it remembers at most. It then forgets the one that it has learned first.
    """

    def __init__(self, url: str, configs: Mapping[str, str] | None = None, capacity: int = 1000) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a registry's client must be 1 or more, got {capacity}")
        self._access = Access(url, configs)
        self._capacity = capacity
        self._by_id: dict[int, Any] = {}

    def __str__(self) -> str:
        return f"the schema registry at {self._access}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_by_id": {}}

    def parsed(self, schema_id: int) -> Any:
        """The schema of this id, as fastavro parses it.

        Raises ValueError if there is none, or one of another format; SchemaRegistryError if the registry can't say.
        """
        known = self._by_id.get(schema_id)
        if known is None:
            known = self._fetched(schema_id)
            if len(self._by_id) >= self._capacity:
                del self._by_id[next(iter(self._by_id))]
            self._by_id[schema_id] = known
        return known

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """The id that stands for the schema in messages of the subject: it is registered, or was, by the configs.

        Raises SchemaRegistryError, for a schema that is not compatible with earlier ones among others.
        """
        path, body = f"/subjects/{quote(subject, safe='')}", {"schema": str(schema)}
        if not self._access.registers:
            try:
                answer = request(self._access, "POST", path, body)
            except SchemaRegistryError as error:
                raise SchemaRegistryError(
                    f"the schema of subject '{subject}' was not found: {error}\nIt must be registered before, for "
                    "'auto.register.schemas' is 'false'",
                    error.code,
                ) from None
            return int(answer["id"])
        try:
            answer = request(self._access, "POST", f"{path}/versions", body)
        except SchemaRegistryError as error:
            if error.code != _INCOMPATIBLE:
                raise
            reasons = "".join(f"\n- {reason}" for reason in self._incompatibilities(subject, body))
            raise SchemaRegistryError(
                f"the schema of subject '{subject}' is not compatible with those that were registered before, so that "
                f"readers would fail: {error}{reasons}\nWrite to another subject, or change the schema: a field that "
                "is new has a default, for example",
                error.code,
            ) from None
        return int(answer["id"])

    def _incompatibilities(self, subject: str, body: Mapping[str, str]) -> list[str]:
        """What the registry says of them, as far as it does."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            return [str(message) for message in request(self._access, "POST", path, body).get("messages", [])]
        except SchemaRegistryError:
            return []

    def _fetched(self, schema_id: int) -> Any:
        try:
            answer = request(self._access, "GET", f"/schemas/ids/{schema_id}")
        except SchemaRegistryError as error:
            if error.code == _NO_SUCH_SCHEMA:
                raise ValueError(f"{self} has no schema with the id {schema_id}") from None
            raise
        known: dict[str, Any] = {}
        if isinstance(answer, dict):
            self._load_references(answer, known)
        return _parsed(answer, f"the schema with the id {schema_id}", known)

    def _load_references(self, answer: Mapping[str, Any], known: dict[str, Any]) -> None:
        """The named types that a schema takes from other subjects come before it."""
        for reference in answer.get("references") or ():
            if reference["name"] in known:
                continue
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            referred = request(self._access, "GET", path)
            self._load_references(referred, known)
            _parsed(referred, f"the schema of '{reference['name']}'", known)


def _parsed(answer: Any, what: str, known: dict[str, Any]) -> Any:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        # Of a proxy, or of a registry that has not started: it says nothing of the message.
        raise SchemaRegistryError(f"{what}: the answer is none of a registry: {str(answer)[:200]!r}")
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise ValueError(f"{what} is of the format {kind}, not AVRO")
    package = fastavro()
    try:
        return package.parse_schema(json.loads(answer["schema"]), known)
    except (package.schema.SchemaParseException, package.schema.UnknownType, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{what} is no Avro schema: {error!r}") from None
