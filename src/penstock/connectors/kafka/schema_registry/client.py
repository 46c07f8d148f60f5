"""The schemas of a registry: by the ids in messages, and by the subjects of writers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from penstock.connectors.formats.avro_schema import AvroSchema, fastavro
from penstock.connectors.kafka.schema_registry.access import Access
from penstock.connectors.kafka.schema_registry.requests import SchemaRegistryError, request

_NO_SUCH_SUBJECT, _NO_SUCH_SCHEMA = 40401, 40403
_PAUSES_S = (0.25, 0.5, 1.0)
"""In a registry of several servers each answers from a copy, which receives new schemas a moment later."""
_INCOMPATIBLE = 409


class SchemaRegistryClient:
    """Query each schema once, because the schema of an id is constant. A pickled client starts without cached schemas.

    `capacity`: how many schemas are cached, at most. The oldest entry is evicted first.
    """

    def __init__(self, url: str, configs: Mapping[str, str] | None = None, capacity: int = 1000) -> None:
        if capacity < 1:
            raise ValueError(f"the capacity of a schema registry client must be 1 or more, got {capacity}")
        self._access = Access(url, configs)
        self.capacity = capacity
        self._by_id: dict[int, Any] = {}
        self._unknown: dict[int, None] = {}
        """Ids that the registry did not know after all retries."""

    def __str__(self) -> str:
        return f"the schema registry at {self._access}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_by_id": {}, "_unknown": {}}

    def parsed(self, schema_id: int) -> Any:
        """Return the schema of this id, as fastavro parses it.

        Raise ValueError if there is none, or one of another format; SchemaRegistryError if the registry cannot answer.
        """
        known = self._by_id.get(schema_id)
        if known is None:
            known = self._fetched(schema_id)
            self._remember(self._by_id, schema_id, known)
        return known

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        """Return the id of the schema in messages of the subject. Register the schema first if the configs allow it.

        Raise SchemaRegistryError, also for a schema that is not compatible with earlier ones.
        """
        path, body = f"/subjects/{quote(subject, safe='')}", {"schema": str(schema)}
        if not self._access.registers:
            try:
                answer = self._found(lambda: request(self._access, "POST", path, body))
            except SchemaRegistryError as error:
                raise SchemaRegistryError(
                    f"the schema of subject '{subject}' was not found: {error}\nRegister it first, because "
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
                f"the schema of subject '{subject}' is not compatible with the registered ones, so that "
                f"readers would fail: {error}{reasons}\nWrite to another subject, or change the schema: for example, "
                "give a new field a default",
                error.code,
            ) from None
        return int(answer["id"])

    def _incompatibilities(self, subject: str, body: Mapping[str, str]) -> list[str]:
        """Return the reasons that the registry gives, if it gives some."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            return [str(message) for message in request(self._access, "POST", path, body).get("messages", [])]
        except SchemaRegistryError:
            return []

    def _remember(self, what: dict[int, Any], schema_id: int, value: Any) -> None:
        if len(what) >= self.capacity:
            del what[next(iter(what))]
        what[schema_id] = value

    def _fetched(self, schema_id: int) -> Any:
        # For an id that was unknown before, each message would wait, and there may be a million of them.
        pauses_s = () if schema_id in self._unknown else _PAUSES_S
        try:
            answer = self._found(lambda: request(self._access, "GET", f"/schemas/ids/{schema_id}"), pauses_s)
        except SchemaRegistryError as error:
            if error.code == _NO_SUCH_SCHEMA:
                self._remember(self._unknown, schema_id, None)
                raise ValueError(f"{self} has no schema with the id {schema_id}") from None
            raise
        known: dict[str, Any] = {}
        if isinstance(answer, dict):
            self._load_references(answer, known)
        return _parsed(answer, f"the schema with the id {schema_id}", known)

    @staticmethod
    def _found(ask: Callable[[], Any], pauses_s: Iterable[float] = _PAUSES_S) -> Any:
        """Return the answer. Repeat the query after each of these pauses if the schema or subject is not found."""
        for pause_s in pauses_s:
            try:
                return ask()
            except SchemaRegistryError as error:
                if error.code not in (_NO_SUCH_SUBJECT, _NO_SUCH_SCHEMA):
                    raise
            time.sleep(pause_s)
        return ask()

    def _load_references(self, answer: Mapping[str, Any], known: dict[str, Any]) -> None:
        """Parse the named types from other subjects first: the schema refers to them."""
        for reference in answer.get("references") or ():
            if reference["name"] in known:
                continue
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            referred = self._found(partial(request, self._access, "GET", path))
            self._load_references(referred, known)
            _parsed(referred, f"the schema of '{reference['name']}'", known)


def _parsed(answer: Any, what: str, known: dict[str, Any]) -> Any:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        # An answer of a proxy, or of a registry that has not started: it is not a fault of the message.
        raise SchemaRegistryError(f"{what}: expected an answer of a schema registry, got {str(answer)[:200]!r}")
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise ValueError(f"{what} must be of the format AVRO, got {kind}")
    package = fastavro()
    try:
        return package.parse_schema(json.loads(answer["schema"]), known)
    except (package.schema.SchemaParseException, package.schema.UnknownType, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{what} is not an Avro schema: {error!r}") from None
