"""Messages on their way through AutoGen's host, exact between event-sourced workers and legible to plain ones.

AutoGen's own form of a message loses things (tuples, keys, subclasses: TRAPS of its serializers), and some types have none.
So the exact form of the log travels with it, in fields that the host passes on unread, wherever AutoGen's form would not
come back as the same object. A plain worker reads AutoGen's form and never notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from autogen_core import JSON_DATA_CONTENT_TYPE, UnknownPayload, try_get_known_serializers_for_type
from autogen_core._serialization import SerializationRegistry

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.errors import EventLogError, RecordedFailure, TypeNotAllowed
from autogen_eventlog.incarnation.failures import decode_failure, encode_failure

EXACT_CONTENT_TYPE = "application/vnd.autogen-eventlog+json"

# Names of what travels in RpcRequest.metadata, RpcResponse.metadata and CloudEvent.attributes: lower case and without
# hyphens, as CloudEvents asks of attributes.
CAUSE = "eventlogcause"
CORRELATION = "eventlogcorrelation"
MESSAGE_ID = "eventlogmessageid"
TYPE = "eventlogtype"
EXACT = "eventlogexact"

Marks = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Packed:
    """A value as it travels."""

    data_type: str
    content_type: str
    data: bytes
    marks: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message from an event-sourced worker comes from: our own delivery identity, never AutoGen's message id."""

    cause: UUID
    """The event that says it was sent, published or submitted."""
    correlation: UUID | None
    message_id: str

    def marks(self) -> dict[str, str]:
        marks = {CAUSE: self.cause.hex, MESSAGE_ID: self.message_id}
        if self.correlation is not None:
            marks[CORRELATION] = self.correlation.hex
        return marks


def origin_of(marks: Marks) -> Origin | None:
    """What the marks say; None: a plain worker sent it."""
    if CAUSE not in marks:
        return None
    correlation = marks.get(CORRELATION)
    return Origin(UUID(marks[CAUSE]), None if correlation is None else UUID(correlation), marks.get(MESSAGE_ID, ""))


class Wire:
    """Packs and unpacks, with the log's codec and the runtime's own serializers."""

    def __init__(self, codec: Codec, serializers: SerializationRegistry) -> None:
        self._codec = codec
        self._serializers = serializers
        codec.registry.register(UnknownPayload)

    # -- messages -------------------------------------------------------------------------------------------------

    def pack(self, encoded: Encoded, content_type: str = JSON_DATA_CONTENT_TYPE) -> Packed:
        """A message for a worker of either kind.

        Args:
            content_type: The form that plain workers expect.
        """
        message = self._codec.decode(encoded.data, where="message")
        name = self._serializers.type_name(message)
        plain = self._plain(message, name, content_type)
        if plain is None:
            return self.pack_exact(encoded)
        marks = {TYPE: encoded.type_name}
        if not (_is_plain(message) or self._comes_back(plain, name, content_type, encoded)):
            marks[EXACT] = encoded.data.decode()
        return Packed(name, content_type, plain, marks)

    def pack_exact(self, encoded: Encoded) -> Packed:
        """A value for an event-sourced worker."""
        return Packed(encoded.type_name, EXACT_CONTENT_TYPE, encoded.data)

    def unpack(self, packed: Packed) -> tuple[Any, Encoded]:
        """The object and its exact form. A type that is unknown here comes as AutoGen's `UnknownPayload`.

        Raises:
            Exception: Whatever AutoGen's serializer raises for data that it can't read.
            PayloadCorrupt, NotEncodable: It can't be read, or not be recorded.
        """
        exact = self._exact(packed)
        if exact is None:
            message = self._unpack_plain(packed)
            return message, self._codec.encode(message)
        try:
            return self._codec.decode(exact.data, where="message"), exact
        except TypeNotAllowed:
            unknown = UnknownPayload(exact.type_name, EXACT_CONTENT_TYPE, exact.data)
            return unknown, self._codec.encode(unknown)

    def _exact(self, packed: Packed) -> Encoded | None:
        if packed.content_type == EXACT_CONTENT_TYPE:
            return Encoded(packed.data_type, packed.data)
        if EXACT in packed.marks:
            return Encoded(packed.marks[TYPE], packed.marks[EXACT].encode())
        return None

    def _unpack_plain(self, packed: Packed) -> Any:
        named = packed.marks.get(TYPE)
        failure: Exception | None = None
        try:
            message = self._serializers.deserialize(
                packed.data, type_name=packed.data_type, data_content_type=packed.content_type
            )
            if named is None or type_name(message.__class__) == named:
                return message
        except Exception as error:  # its own code, on the data of another class of that name
            failure = error
        # AutoGen keeps one class for each short name; another one of that name may be meant (T19).
        cls = None if named is None else self._codec.registry.resolve(named)
        for serializer in [] if cls is None else try_get_known_serializers_for_type(cls):
            if serializer.data_content_type == packed.content_type:
                return serializer.deserialize(packed.data)
        if named is None and failure is not None:
            raise failure
        return UnknownPayload(named or packed.data_type, packed.content_type, packed.data)

    def _plain(self, message: Any, name: str, content_type: str) -> bytes | None:
        """AutoGen's form; None if it has none for this."""
        if not self._serializers.is_registered(name, content_type):
            try:
                self._serializers.add_serializer(try_get_known_serializers_for_type(message.__class__))
            except ValueError:  # a shape that AutoGen refuses, such as a dataclass in a dataclass
                return None
        try:
            return self._serializers.serialize(message, type_name=name, data_content_type=content_type)
        except Exception:  # its own code, on a value or class that it was not made for
            return None

    def _comes_back(self, plain: bytes, name: str, content_type: str, encoded: Encoded) -> bool:
        try:
            again = self._serializers.deserialize(plain, type_name=name, data_content_type=content_type)
            return self._codec.encode(again) == encoded
        except Exception:  # AutoGen can't read what it wrote (an abstract field, say)
            return False

    # -- errors ---------------------------------------------------------------------------------------------------

    def pack_error(self, error: BaseException) -> tuple[str, dict[str, str]]:
        """The text that a plain worker shows (it takes an empty one for success), and the error itself."""
        failure = encode_failure(self._codec, error)
        try:
            text = str(error) or type(error).__qualname__
        except Exception:  # a user's __str__ may raise; the caller must hear of the error all the same
            text = type(error).__qualname__
        return text.encode(errors="replace").decode(), {TYPE: failure.type_name, EXACT: failure.data.decode()}

    def unpack_error(self, text: str, marks: Marks) -> BaseException:
        """The error with its type and text, as far as its class is loaded here."""
        if EXACT not in marks:
            return Exception(text)
        try:
            return decode_failure(self._codec, marks[TYPE], marks[EXACT].encode(), where="the error of a call")
        except EventLogError:
            return RecordedFailure(marks[TYPE], text)


_PLAIN = frozenset({str, int, bool, type(None)})


def _is_plain(message: Any) -> bool:
    """A dataclass of nothing but texts and numbers, which AutoGen's form holds exactly: there is no need to try."""
    fields = getattr(message.__class__, "__dataclass_fields__", None)
    return (
        fields is not None
        and not hasattr(message, "__post_init__")
        and all(one.init and type(getattr(message, name)) in _PLAIN for name, one in fields.items())
    )
