"""Who is let in: with the token, from this machine, and not by another site's page."""

from __future__ import annotations

import http.client
import stat
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.unit.service.rest.served import Served

from penstock.service.cluster.rest_address import read_only_file
from penstock.service.cluster.rest_tokens import LINK_S, LoginCodes, login_path, read_only_token


def login(served: Served, token: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return served.ask("/login", "POST", f"token={token}".encode(), form)


@pytest.mark.parametrize("path", ["/jobs", "/v1/jobs", "/jobs/id", "/metrics", "/jobmanager/logs", "/nothing"])
def test_nothing_is_told_without_the_token(served: Served, path: str) -> None:
    """Another user of the machine would read the job's settings, or cancel it."""
    for headers in ({}, {"Authorization": "Bearer 0"}, {"Authorization": served.endpoint.token}):
        status, answered, body = served.ask(path, headers=headers)
        assert status == 401 and answered["www-authenticate"] == "Bearer" and b"token" in body
    assert served.ask("/jobs/id", "PATCH", headers={})[0] == 401
    assert not served.job.is_cancelled


def test_the_token_is_in_a_file_of_the_user_alone(served: Served) -> None:
    """Another user of the machine would read it there."""
    path = Path(served.endpoint.address.token_file)
    assert path.read_text() == served.endpoint.token == served.endpoint.address.token()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    served.endpoint.close()
    assert not path.exists()


def test_a_page_logs_in_by_a_cookie_that_scripts_and_other_sites_do_not_get(served: Served) -> None:
    """A page of another site would act with the user's rights."""
    status, headers, _ = served.ask("/", headers={})
    assert (status, headers["location"]) == (303, "/login?next=%2F")
    status, _, body = login(served, "0")
    assert status == 401 and b"This is not the token of this server." in body
    status, headers, _ = login(served, served.endpoint.token)
    cookie = headers["set-cookie"]
    assert status == 303 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    own = {"Cookie": cookie.partition(";")[0]}
    assert served.ask("/jobs", headers=own)[0] == 200
    assert served.ask("/jobs/id", "PATCH", headers=own)[0] == 401, "no page of ours, as far as the browser says"
    assert served.ask("/jobs/id", "PATCH", headers=own | {"Origin": served.endpoint.address.url})[0] == 202


def test_a_token_that_only_reads_changes_nothing(served: Served) -> None:
    """A scraper of metrics would hold a token that cancels jobs."""
    address = served.endpoint.address
    path = read_only_file(Path(address.token_file))
    reader = {"Authorization": f"Bearer {path.read_text()}"}

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert served.ask("/metrics", headers=reader)[0] == 200
    status, _, body = served.ask("/jobs/id", "PATCH", headers=reader)
    assert status == 403 and b"this token only reads" in body
    assert not served.job.is_cancelled
    served.endpoint.close()
    assert not path.exists()


def test_a_browser_with_a_token_that_only_reads_changes_nothing(served: Served) -> None:
    """The cookie would have more rights than what was typed in."""
    address = served.endpoint.address
    status, headers, _ = login(served, read_only_token(address.token()))
    own = {"Cookie": headers["set-cookie"].partition(";")[0]}

    assert status == 303 and served.ask("/jobs", headers=own)[0] == 200
    assert served.ask("/jobs/id", "PATCH", headers=own | {"Origin": address.url})[0] == 403
    assert not served.job.is_cancelled


def test_a_link_logs_in_once(served: Served) -> None:
    """Whoever finds it later, in the history of a browser or of a terminal, would cancel jobs."""
    path = served.endpoint.address.login_url().removeprefix(served.endpoint.address.url)

    status, headers, _ = served.ask(path, headers={})
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"]
    assert served.ask("/jobs", headers={"Cookie": headers["set-cookie"].partition(";")[0]})[0] == 200

    status, headers, body = served.ask(path, headers={})
    assert status == 401 and "set-cookie" not in headers and b"This link was used" in body


@pytest.mark.parametrize("code", ["", "1", "-", "9" * 30, "%ff-1-2", "99999999999-aa-bb", "\u0661-a-b"])
def test_a_link_that_was_not_made_with_the_token_does_not_log_in(served: Served, code: str) -> None:
    """Another user of the machine would make one."""
    status, headers, _ = served.ask(f"/login?code={quote(code)}", headers={})
    assert status == 401 and "set-cookie" not in headers


def test_a_link_that_is_old_does_not_log_in() -> None:
    """A link in a log of yesterday would still be good."""
    codes = LoginCodes("token")
    code = login_path("token", now_s=1_000).partition("=")[2]

    assert not codes.use(code, 1_000 + LINK_S)
    assert not LoginCodes("another").use(code, 1_000)
    assert codes.use(code, 999 + LINK_S)
    assert not codes.use(code, 1_000)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
    ],
)
def test_other_sites_are_refused_whatever_they_bring(served: Served, headers: dict[str, str]) -> None:
    """A page that is open beside ours could cancel jobs, or read them by a name that resolves to this machine."""
    own = {"Authorization": f"Bearer {served.endpoint.token}"} | headers
    assert served.ask("/jobs/id", "PATCH", headers=own)[0] == 403
    assert served.ask("/jobs", headers=own)[0] == 403
    assert not served.job.is_cancelled


LINK = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_link_on_another_page_of_this_machine_opens_pages_and_nothing_else(served: Served) -> None:
    """The link from a job's address to the dashboard would be refused; or a link could change a job."""
    token = {"Authorization": f"Bearer {served.endpoint.token}"}
    assert served.ask("/", headers=LINK)[0] == 303 and served.ask("/login", headers=LINK)[0] == 200
    assert served.ask("/", headers=token | LINK)[0] == 200
    for path, method in (("/jobs", "GET"), ("/jobs/id", "PATCH"), ("/login", "POST")):
        assert served.ask(path, method, headers=token | LINK)[0] == 403
    for other in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Mode": "cors"}):
        assert served.ask("/", headers=token | LINK | other)[0] == 403
    assert not served.job.is_cancelled


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/jobs", "/login", ""])
def test_a_login_leads_to_a_page_of_ours(served: Served, wanted: str) -> None:
    """A link with our address would show a page of another site, which asks for the token."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"token={served.endpoint.token}".encode()
    status, headers, _ = served.ask(f"/login?next={quote(wanted)}", "POST", body, form)
    assert (status, headers["location"]) == (303, "/")


def test_pages_may_not_be_framed_or_guessed(served: Served) -> None:
    """A log with HTML in it would be run as a page of ours."""
    _, headers, _ = served.ask("/jobs")
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


def test_a_login_of_any_length_is_read_no_further_than_a_token_is_long(served: Served) -> None:
    """Whoever reaches the port would fill the driver's memory, without a token: chunks announce no length."""
    connection = http.client.HTTPConnection(served.host, timeout=30)
    chunks = (b"x" * 10_000 for _ in range(20))
    connection.request("POST", "/login", chunks, {}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_is_said_to_be_too_long_is_refused_before_it_comes(served: Served) -> None:
    """Connections are few, and one whose body never comes would hold one of them until it is given up."""
    connection = http.client.HTTPConnection(served.host, timeout=30)
    headers = {"Authorization": f"Bearer {served.endpoint.token}", "Content-Length": "9" * 14}
    connection.request("POST", "/jobs/id/savepoints", b"{", headers)
    assert connection.getresponse().status == 413
    connection.close()


def test_what_is_sent_runs_nothing_that_came_with_a_name_or_a_text(served: Served) -> None:
    """A job's name with markup in it would act with the user's rights, if any page of ours let it in."""
    for path in ("/jobs", "/login"):
        policy = served.ask(path)[1]["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
