"""What is wrong with the address or the token of an endpoint."""

from __future__ import annotations

import pytest

from penstock.client.rest_client import TOKEN, RestClient
from penstock.common.errors import ConfigurationError


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:99999999", "127.0.0.1:²", "ftp://a:1"])
def test_an_address_that_is_none_is_shown(address: str) -> None:
    """A slip of the finger would end in a traceback of the standard library's."""
    with pytest.raises(ConfigurationError, match=r"the address of a cluster is HOST:PORT, got"):
        RestClient.at(address, {TOKEN: "token"})


@pytest.mark.parametrize("token", ["secret…", "secret\n", "secr\u00e9t"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    """One that was pasted with a line break, or as a page abbreviates it, would end in a traceback, perhaps with it."""
    with pytest.raises(ConfigurationError, match=f"characters that no token has.*{TOKEN}") as raised:
        RestClient.at("127.0.0.1:1", {TOKEN: token})
    assert "secr" not in str(raised.value)
