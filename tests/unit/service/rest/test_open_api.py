"""The OpenAPI document, and the page that shows it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_spec_validator import validate
from starlette.routing import Route
from tests.unit.service.rest.served import Served

from penstock.service.rest.application import application
from penstock.service.rest.served_jobs import ServedJobs


@pytest.fixture
def document(served: Served) -> Any:
    return served.get("/openapi.json")


def test_it_is_a_document_of_openapi(document: Any) -> None:
    """Generators of clients would refuse it."""
    validate(document)
    assert document["openapi"] == "3.1.0" and document["security"] == [{"token": []}]


def test_every_path_that_is_served_is_in_it_and_no_other(document: Any) -> None:
    """A path would be known to none but those who read the code."""
    served = {
        (re.sub(r":path}", "}", route.path), method.lower())
        for route in application(ServedJobs(), "token", "cookie").routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {(path, method) for path, operations in document["paths"].items() for method in operations}
    assert described == served and len(served) > 60


def test_each_operation_says_what_it_is_for_and_takes(document: Any) -> None:
    """A list of paths alone would be no documentation."""
    operations = [(path, one) for path, all_of in document["paths"].items() for one in all_of.values()]
    for path, one in operations:
        assert re.match(r"[A-Z/`].{5,}", one["summary"]) and "GET" not in one["summary"], (path, one["summary"])
        in_path = [parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)}", path)
    assert len({one["operationId"] for _, one in operations}) == len(operations)


def test_what_is_penstocks_own_is_described_to_its_fields(document: Any) -> None:
    """Nobody could write a client of queryable state."""
    components = document["components"]["schemas"]
    assert "checkpoint-id" in components["StateAnswer"]["properties"]
    assert components["StopRequest"]["properties"].keys() == {"targetDirectory", "drain", "formatType", "triggerId"}
    entries = document["paths"]["/jobs/{jobid}/state/entries"]["get"]
    assert [parameter["name"] for parameter in entries["parameters"] if parameter["in"] == "query"] == [
        "name", "operator", "state", "key", "limit", "isolation", "exact",
    ]  # fmt: skip


def test_answers_are_of_the_type_that_is_described(served: Served, document: Any) -> None:
    """A generated client would fail with the first answer."""
    vertex = served.vertex(1).rpartition("/")[2]
    values = {
        "jobid": "id", "vertexid": vertex, "subtaskindex": "0", "applicationid": "id", "taskmanagerid": "level-0-slot-0"
    }  # fmt: skip
    kinds = {"object": dict, "array": list}
    asked = 0
    for path, operations in document["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        if "get" not in operations or not values.keys() >= set(names):
            continue
        content = operations["get"]["responses"]["200"]["content"]
        status, headers, _ = served.ask(path.format(**values))
        if status == 404:
            continue
        (media_type,) = content
        assert headers["content-type"].partition(";")[0] == media_type, path
        if "application/json" in content and (kind := content[media_type]["schema"].get("type")):
            assert isinstance(served.get(path.format(**values)), kinds[kind]), path
        asked += 1
    assert asked > 40


def test_the_page_that_shows_it_loads_nothing_from_elsewhere(served: Served) -> None:
    """Without a network the page would be empty."""
    for path, media_type in (("/docs", "text/html"), ("/docs.js", "text/javascript")):
        status, headers, text = served.ask(path)
        assert status == 200 and headers["content-type"].startswith(media_type) and b"://" not in text
