"""What is wrong with the address or the token of an endpoint."""

from __future__ import annotations

import socket
import threading

import pytest

from penstock.common.errors import ConfigurationError
from penstock.service.client.rest_client import TOKEN, RestClient, UnreachableError


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:99999999", "127.0.0.1:²", "ftp://a:1"])
def test_an_address_that_is_none_is_shown(address: str) -> None:
    """A slip of the finger would end in a traceback of the standard library's."""
    with pytest.raises(ConfigurationError, match=r"expected HOST:PORT as the address of a cluster, got"):
        RestClient.at(address, {TOKEN: "token"})


@pytest.mark.parametrize("token", ["secret…", "secret\n", "secr\u00e9t"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    """One that was pasted with a line break, or as a page abbreviates it, would end in a traceback, perhaps with it."""
    with pytest.raises(ConfigurationError, match=f"invalid characters: check {TOKEN}") as raised:
        RestClient.at("127.0.0.1:1", {TOKEN: token})
    assert "secr" not in str(raised.value)


def test_who_asked_one_that_hangs_is_told_that_it_may_be_done_later() -> None:
    """A job that is submitted once more would run twice: the first one starts when the dispatcher goes on."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        client = RestClient(f"http://127.0.0.1:{hanging.getsockname()[1]}", "token", timeout_s=0.1)
        with pytest.raises(UnreachableError, match="may still take effect"):
            client.request("POST", "/jars/a/run")
        with pytest.raises(UnreachableError) as raised:
            client.get("/jobs")
    assert "may still take effect" not in str(raised.value)


def test_who_asked_one_that_ended_is_told_that_it_may_have_been_done() -> None:
    """A dispatcher that is killed when it has noted a job starts it when it comes back."""
    with socket.create_server(("127.0.0.1", 0)) as ending:

        def end() -> None:
            taken, _ = ending.accept()
            with taken:
                taken.recv(1)

        thread = threading.Thread(target=end)
        thread.start()
        url = f"http://127.0.0.1:{ending.getsockname()[1]}"
        with pytest.raises(UnreachableError, match="may still take effect"):
            RestClient(url, "token").request("POST", "/submissions?id=a")
        thread.join()
    with pytest.raises(UnreachableError) as raised:
        RestClient(url, "token").request("POST", "/submissions?id=a")
    assert "may still take effect" not in str(raised.value)
