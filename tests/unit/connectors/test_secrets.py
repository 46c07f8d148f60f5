"""Secrets of connectors: passwords and tokens are in no plan, log, text, answer or error."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Encoder, WatermarkStrategy
from penstock.common.errors import JobError, PenstockError, ProgramError, SourceError
from penstock.common.text.secrets import has_secret, without_secrets
from penstock.connectors.files.storage import resolve
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.connectors.http import HttpSink, ServerSentEventSource
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from penstock.datastream.connectors.postgres import PostgresChangeSource, PostgresLookup, PostgresSink, PostgresSource
from penstock.datastream.connectors.redis import RedisLookup, RedisSink, RedisStreamSource
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.engine.rpc.failures import describe
from penstock.service.rest.answers import error_answer, json_answer
from penstock.service.rest.java_exceptions import failure_cause
from penstock.service.rest.secrets import hide_secrets

SECRET = "pa55-w0rd"
_NOBODY = "127.0.0.1:1"
_POSTGRES, _REDIS = f"postgresql://ada:{SECRET}@{_NOBODY}/db?connect_timeout=1", f"redis://ada:{SECRET}@{_NOBODY}/0"
_DSN = f"host=127.0.0.1 port=1 user=ada password={SECRET} connect_timeout=1"
_S3 = f"s3://ada:{SECRET}@bucket/path?endpoint_override={_NOBODY}&scheme=http&region=us-east-1"
_KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
KAFKA = {
    "sasl.password": SECRET,
    "sasl.jaas.config": f'org.apache.PlainLoginModule required username="ada" password="{SECRET}";',
    "sasl.oauthbearer.client.secret": SECRET,
    "ssl.key.password": SECRET,
    "ssl.key.pem": _KEY,
    "ssl.keystore.key": _KEY,
    "ssl.keystore.password": SECRET,
    "ssl.truststore.password": SECRET,
    "basic.auth.user.info": f"ada:{SECRET}",
    "schema.registry.basic.auth.user.info": f"ada:{SECRET}",
    "bearer.auth.token": SECRET,
}
"""Settings of Kafka's clients, and of those of a schema registry, that hold a secret."""
_OF_A_CLIENT = ("sasl.jaas.config", "ssl.key.password", "ssl.key.pem")
_HTTP = f"http://ada:{SECRET}@{_NOBODY}/in?token={SECRET}"


def _jdbc() -> Any:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:postgresql://{_NOBODY}/db")
    with_password = options.with_user_name("ada").with_password(SECRET).build()
    return JdbcSink.sink("INSERT INTO t VALUES (?)", None, with_password)


def _change_source() -> Any:
    return PostgresChangeSource(url=_POSTGRES, tables=["t"], slot_name="s")


def _kafka_properties() -> dict[str, str]:
    # The client refuses the invalid key, and so sends no request.
    given = {name: KAFKA[name] for name in _OF_A_CLIENT}
    return {**given, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def _kafka_source() -> Any:
    source = KafkaSource.builder().set_bootstrap_servers(_NOBODY).set_topics("t").set_properties(_kafka_properties())
    return source.set_value_only_deserializer(JsonDeserializationSchema()).build()


def _kafka_sink() -> Any:
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    serializer = schema.set_value_serialization_schema(JsonSerializationSchema()).build()
    sink = KafkaSink.builder().set_bootstrap_servers(_NOBODY).set_record_serializer(serializer)
    for name, value in _kafka_properties().items():
        sink.set_property(name, value)
    return sink.build()


SOURCES: dict[str, Callable[[], Any]] = {
    "postgres": lambda: PostgresSource(url=_DSN, table="t", partition_column="a"),
    "changes": _change_source,
    "redis": lambda: RedisStreamSource(url=_REDIS, streams=["s"]),
    "events": lambda: ServerSentEventSource(url=_HTTP, headers={"Authorization": f"Bearer {SECRET}"}),
    "kafka": _kafka_source,
    "s3": lambda: FileSource.for_record_stream_format(StreamFormat.text_line_format(), _S3).build(),
}
SINKS: dict[str, Callable[[], Any]] = {
    "postgres": lambda: PostgresSink(url=_POSTGRES, table="t", columns=["a"]),
    "jdbc": _jdbc,
    "redis": lambda: RedisSink(url=_REDIS, stream="s", fields=["a"]),
    "http": lambda: HttpSink(url=_HTTP, headers={"Authorization": f"Bearer {SECRET}"}),
    "kafka": _kafka_sink,
    "s3": lambda: FileSink.for_row_format(_S3, Encoder.simple_string_encoder()).build(),
}
EACH = [(kind, name) for kind, makers in (("source", SOURCES), ("sink", SINKS)) for name in makers]


def texts_of(value: Any, seen: set[int]) -> list[str]:
    """Return the texts of a value and all its parts, as a debugger and an error with `!r` show them."""
    if id(value) in seen or isinstance(value, (str, bytes, type)) or callable(value):
        return []
    seen.add(id(value))
    held = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [
        "" if isinstance(value, (dict, list, tuple)) else f"{value!r} {value}",
        *(text for part in [*held, *getattr(value, "__dict__", {}).values()] for text in texts_of(part, seen)),
    ]


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_nobody_is_told(
    kind: str, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A password would be in the plan on a dashboard, in a collected log, or in an error that goes into a ticket."""
    caplog.set_level(logging.DEBUG)
    made = (SOURCES if kind == "source" else SINKS)[name]()
    errors: list[BaseException] = []
    try:
        # There is no listener; validation sends no HTTP request, because each may have an effect.
        made.validate()
    except (PenstockError, OSError) as error:
        errors.append(error)
    assert errors or name in ("http", "events")
    # The plan of a program whose servers are there.
    made.validate = lambda: None
    env = StreamExecutionEnvironment.get_execution_environment()
    if kind == "source":
        env.from_source(made, WatermarkStrategy.no_watermarks(), name).print()
    else:
        env.from_collection([("a",)]).sink_to(made).name(name)
    shown_texts = [env.get_execution_plan(), *texts_of(made, set())]
    for error in errors:
        lines = traceback.format_exception(error)
        shown_texts += [line for line in lines if __file__ not in line]

    told = "".join([*shown_texts, caplog.text, *capfd.readouterr()])
    assert len(told) > 100 and SECRET not in told


def test_urls_of_files_are_shown_without_passwords() -> None:
    """A path in an error, answer or log would reveal the key of the whole store."""
    text = f"s3://key:{SECRET}@bucket/a and http://ada:{SECRET}@host:80/b@c, not http://host:80/a@b or a:b@c"
    expected = "s3://***@bucket/a and http://***@host:80/b@c, not http://host:80/a@b or a:b@c"
    assert without_secrets(text) == expected and has_secret(text) and not has_secret(expected)
    assert without_secrets(f"s3://key:pa/55/{SECRET}@bucket/a") == "s3://***@bucket/a"
    assert without_secrets("s3://bucket/12:00@noon") == "s3://bucket/12:00@noon"
    for kind in (PenstockError, ProgramError, SourceError, JobError):
        error = kind(text)
        assert str(error) == expected and str(pickle.loads(pickle.dumps(error))) == expected
    assert SECRET not in f"{hide_secrets({'path': f's3://key:{SECRET}@bucket/a'})}"
    for answer in (json_answer({"external_path": text}), error_answer(404, text)):
        assert expected in bytes(answer.body).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"host=db password={SECRET} port=1", "host=db password=*** port=1"),
        (f"host=db password = '{SECRET} b' port=1", "host=db password = '***' port=1"),
        (f'module required password="{SECRET}";', 'module required password="***";'),
        (f"{{'sasl.password': '{SECRET}', 'a': 'b'}}", "{'sasl.password': '***', 'a': 'b'}"),
        (f"AccountName=ada;AccountKey={SECRET};x", "AccountName=ada;AccountKey=***;x"),
        (f"postgresql://ada:a@{SECRET}@db/x", "postgresql://***@db/x"),
        (f"postgresql://db/x?user=ada&password={SECRET}&port=1", "postgresql://db/x?user=ada&password=***&port=1"),
        (f"https://host/in?a=1&access_token={SECRET}", "https://host/in?a=1&access_token=***"),
        (f"https://host/in?X-Amz-Signature={SECRET}, refused", "https://host/in?X-Amz-Signature=***, refused"),
        (f"https://host/in?sig={SECRET}", "https://host/in?sig=***"),
        (f"Authorization: Bearer {SECRET}", "Authorization: Bearer ***"),
        (f"{{'Authorization': 'Basic {SECRET}'}}", "{'Authorization': 'Basic ***'}"),
        (f'{{"Authorization": "{SECRET}"}}', '{"Authorization": "***"}'),
        (f"Cookie: a={SECRET}; b={SECRET}\nHost: db", "Cookie: ***\nHost: db"),
        (f"{{'Cookie': 'a={SECRET}; b={SECRET}'}}", "{'Cookie': '***'}"),
        (f"x-api-key: {SECRET}", "x-api-key: ***"),
        (f"host=db pw={SECRET}, {{'my_pw': '{SECRET}'}}", "host=db pw=***, {'my_pw': '***'}"),
        (f"token = '{SECRET}'", "token = '***'"),
        (f"sasl.oauthbearer.client.secret={SECRET}", "sasl.oauthbearer.client.secret=***"),
        (
            f'sasl.jaas.config=a.PlainLoginModule required username="ada" password="{SECRET}";',
            'sasl.jaas.config=a.PlainLoginModule required username="ada" password="***";',
        ),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY----- is none",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY----- is none",
        ),
        ("    tokens = line.split(); token = tokens[0]; cookie = cookies[token]", None),
        ("host=db user=ada, 3 = tokens, ?key=JFK, authorization failed", None),
    ],
)
def test_secrets_by_their_names_are_shown_as_stars(text: str, expected: str | None) -> None:
    """The dashboard would show the text of a user's own client about a failed connection, with its password."""
    assert without_secrets(text) == (expected or text) and has_secret(text) is (expected is not None)
    assert str(JobError(text)) == (expected or text)
    answer = bytes(error_answer(500, text).body).decode()
    assert json.loads(answer) == {"errors": [expected or text]}


@pytest.mark.parametrize(
    "key",
    [
        *("s3.secret-key", "webhook.signing-key", "http.authorization", "ssl.key.passphrase", "db.passwd", "my.pwd"),
        *("http.cookie", "pw", "db.pw", "my_pw", *KAFKA),
    ],
)
def test_settings_are_known_by_their_names(key: str) -> None:
    """The page of a job's settings would show them."""
    assert SECRET not in f"{hide_secrets({key: SECRET, 'source': f'{{{key}: {SECRET}}}'})}" and hide_secrets(
        {"parallelism.default": "2"}
    ) == {"parallelism.default": "2"}


@pytest.mark.parametrize(
    "text", [f"host=db pasword={SECRET}", f"host=db port=x password='{SECRET}", f"postgresql://ada:{SECRET}@[bad/db"]
)
def test_an_address_of_a_database_that_can_not_be_read_is_not_repeated(text: str) -> None:
    """A slip of the pen in it would print the password."""
    source = PostgresSource(url=text, table="t", partition_column="a")
    with pytest.raises(PenstockError) as raised:
        source.validate()
    lines = traceback.format_exception(raised.value)
    assert SECRET not in "".join(line for line in lines if __file__ not in line)


def test_lookups_do_not_tell() -> None:
    """They are functions of an operator, not connectors that a plan describes: their text is in errors."""
    postgres = PostgresLookup(url=_POSTGRES, table="t", key_column="a", key_selector=str)
    redis = RedisLookup(url=_REDIS, key_selector=str)
    for made in (postgres, redis):
        told = texts_of(made, set())
        assert told and SECRET not in "".join(told)


def test_a_url_that_can_not_be_read_is_not_repeated() -> None:
    """The commonest mistake, a key with a slash in it, would print the key."""
    for url in (f"s3://key:pa/{SECRET}@bucket/a", f"nobody://key:{SECRET}@bucket/a"):
        with pytest.raises(ProgramError) as raised:
            resolve(url)
        lines = traceback.format_exception(raised.value)
        assert SECRET not in "".join(line for line in lines if __file__ not in line)


def test_an_answer_stays_json_whatever_has_the_name_of_a_secret() -> None:
    """Clients could not read it: for example, how the endpoint is queried, or that it accepts a token."""
    value = {"security": [{"token": []}], "password": None, "secret": {"type": "http"}, "token": 5, "cookie": "mine"}
    body = bytes(json_answer(value).body)
    assert json.loads(body) == {**value, "cookie": "***"}


@pytest.mark.parametrize(
    "text", ["password=", "reset password=", 'a "password" = ', "-----BEGIN PRIVATE KEY-----", "cookie: ", "x?sig="]
)
def test_a_text_that_begins_a_secret_at_its_end_spoils_no_answer(text: str) -> None:
    """A single job of that name would make all answers of its cluster invalid JSON."""
    value = {"name": text, "state": "FINISHED", "errors": [text, f"password={SECRET}"], text: 1}
    told = json.loads(bytes(json_answer(value).body))
    assert told["state"] == "FINISHED" and told["errors"][1] == "password=***" and told[text] == 1


@pytest.mark.parametrize(
    "text",
    [
        repr({"sasl.password": f"it's {SECRET}"}), f'password="it\'s {SECRET}"', f"password='say \"{SECRET}\"'",
        json.dumps({"error": repr({"sasl.password": f"it's {SECRET}"})}),
    ],
)  # fmt: skip
def test_a_secret_with_the_other_quote_in_it_is_hidden(text: str) -> None:
    """A password with a quote, as generators create them, would be in each error."""
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        f"password='{SECRET}\\'", f'password="{SECRET}\\"', str({"sasl.password": SECRET})[:-2] + "\\'}",
        f'password="a\\\n{SECRET}"', f"password='a\\' and {SECRET}'", f"password='{SECRET}",
        f'{{"password": "a {SECRET}',
        json.dumps({"error": f"password='{SECRET}\\'"}),
    ],
)  # fmt: skip
def test_a_secret_with_a_backslash_or_without_an_end_is_hidden(text: str) -> None:
    """Whether a backslash belongs to the quote behind it depends on who has written the text; and texts are cut."""
    assert SECRET not in without_secrets(text)


def test_a_failure_that_a_client_of_flink_unpacks_has_no_secret() -> None:
    """The serialized form for Java would contain the text that is masked in the readable form."""
    cause = failure_cause(OSError(f"https://host/x?sig={SECRET}"))
    assert SECRET not in cause["stack-trace"] and SECRET.encode() not in base64.b64decode(cause["serialized-throwable"])
    assert SECRET not in describe(OSError(f"https://host/x?sig={SECRET}"))[1]
