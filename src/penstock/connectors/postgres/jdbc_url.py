"""Addresses as JDBC's driver for PostgreSQL takes them, in libpq's words.

Source: pgJDBC docs, "Initializing the Driver"; PostgreSQL docs, "Parameter Key Words" of libpq.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

PREFIX = "jdbc:"
_NAMES = {
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
    "loginTimeout": "connect_timeout",
}
_VALUES = {
    ("loadBalanceHosts", "true"): ("load_balance_hosts", "random"),
    ("loadBalanceHosts", "false"): ("load_balance_hosts", "disable"),
    # JDBC's driver checks the server's certificate and name then.
    ("ssl", "true"): ("sslmode", "verify-full"),
    ("ssl", "false"): ("sslmode", "prefer"),
    ("targetServerType", "any"): ("target_session_attrs", "any"),
    ("targetServerType", "preferSecondary"): ("target_session_attrs", "prefer-standby"),
    ("targetServerType", "primary"): ("target_session_attrs", "primary"),
    ("targetServerType", "secondary"): ("target_session_attrs", "standby"),
    ("tcpKeepAlive", "true"): ("keepalives", "1"),
    ("tcpKeepAlive", "false"): ("keepalives", "0"),
}
_WITHOUT_EFFECT = frozenset(
    {
        "binaryTransfer",
        "defaultRowFetchSize",
        "logUnclosedConnections",
        "loggerLevel",
        "prepareThreshold",
        "preparedStatementCacheQueries",
        "preparedStatementCacheSizeMiB",
        "reWriteBatchedInserts",
        "socketTimeout",
        "stringtype",
    }
)
"""How JDBC's driver sends statements and reads rows, which psycopg does in its own way."""


def libpq_url(url: str) -> str:
    """Return an address of JDBC with libpq's parameters; any other one as it is.

    Parameters that neither knows stay: libpq refuses them.
    """
    if not url.startswith(PREFIX):
        return url
    address, _, query = url.removeprefix(PREFIX).partition("?")
    if not query or "/" not in address.partition("://")[2]:
        # Without parameters, or with a question mark in the password.
        return url.removeprefix(PREFIX)
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "currentSchema":
            # Parts of libpq's options are between blanks.
            path = value.replace("\\", "\\\\").replace(" ", "\\ ")
            found["options"] = f"{found.get('options', '')} -c search_path={path}".strip()
        elif name == "options":
            found[name] = f"{value} {found.get(name, '')}".strip()
        elif (name, value) in _VALUES:
            other, translated = _VALUES[name, value]
            # A mode that is named outweighs `ssl`, as in JDBC's driver.
            found.setdefault(other, translated)
        elif name not in _WITHOUT_EFFECT:
            found[_NAMES.get(name, name)] = value
    return f"{address}?{urlencode(found, quote_via=quote)}" if found else address
