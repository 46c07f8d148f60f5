"""An error in the form in which Flink's clients read the cause of a failed operation.

They deserialize a Java object, so an answer contains one: Flink's SerializedThrowable, with the error's message.
Source: Java Object Serialization Specification, 6 (Object Serialization Stream Protocol).
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from penstock.common.text.secrets import without_secrets
from penstock.engine.jobmaster.execution_graph import error_name

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _NULL, _STRING, _LONG_STRING, _END, _REFERENCE = (
    b"\x73", b"\x72", b"\x70", b"\x74", b"\x7c", b"\x78", b"\x71",
)  # fmt: skip
_SERIALIZABLE, _WITH_WRITE_METHOD = b"\x02", b"\x03"
_SERIALIZED_THROWABLE_UID = 7284183123441947635
_EXCEPTION_UID = -3387516993124229948
_THROWABLE_UID = -3042686055658047285


def failure_cause(error: BaseException) -> dict[str, Any]:
    """Return the cause for an error. Flink: SerializedThrowableSerializer."""
    return failure_cause_of(error_name(error), str(error))


def failure_cause_of(kind: str, text: str) -> dict[str, Any]:
    """Return the cause for an error of which only class and text are known."""
    # Hide secrets here: answers do not look for them in serialized objects.
    text = without_secrets(text)
    return {
        "class": kind,
        "stack-trace": text,
        "serialized-throwable": base64.b64encode(_serialized(kind, text)).decode(),
    }


def _serialized(kind: str, text: str) -> bytes:
    trace = f"{kind}: {text}"
    fields = (("[", "serializedException", "[B"), ("L", "fullStringifiedStackTrace", "Ljava/lang/String;"))
    name = (("L", "originalErrorClassName", "Ljava/lang/String;"),)
    throwable = (
        ("L", "cause", "Ljava/lang/Throwable;"),
        ("L", "detailMessage", "Ljava/lang/String;"),
        ("[", "stackTrace", "[Ljava/lang/StackTraceElement;"),
        ("L", "suppressedExceptions", "Ljava/util/List;"),
    )
    described = (
        _description("org.apache.flink.util.SerializedThrowable", _SERIALIZED_THROWABLE_UID, fields + name)
        + _description("java.lang.Exception", _EXCEPTION_UID, ())
        + _description("java.lang.Throwable", _THROWABLE_UID, throwable, _WITH_WRITE_METHOD)
        + _NULL
    )
    # Values of the superclass first. A null cause, stack trace or list of suppressed exceptions is absent.
    of_throwable = _NULL + _string(trace) + _NULL + _NULL + _END
    return _MAGIC + _OBJECT + described + of_throwable + _NULL + _string(trace) + _string(kind)


def _description(name: str, uid: int, fields: tuple[tuple[str, str, str], ...], flags: bytes = _SERIALIZABLE) -> bytes:
    described = b"".join(kind.encode() + _utf(field) + _string(type_) for kind, field, type_ in fields)
    return _CLASS + _utf(name) + struct.pack(">q", uid) + flags + struct.pack(">H", len(fields)) + described + _END


def _utf(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _string(text: str) -> bytes:
    data = _modified_utf8(text)
    short = len(data) < 1 << 16
    return (_STRING + struct.pack(">H", len(data)) if short else _LONG_STRING + struct.pack(">Q", len(data))) + data


def _modified_utf8(text: str) -> bytes:
    """Encode a text in Java's form: each surrogate separately, and no zero byte."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = struct.unpack(f">{len(units) // 2}H", units)
    return b"".join(chr(code).encode("utf-8", "surrogatepass") if code else b"\xc0\x80" for code in codes)
