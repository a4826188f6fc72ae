"""Classes of other packages that are no dataclass and no model, recognised by name: AutoGen is not imported here."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import AnyUrl, SecretBytes, SecretStr
from pydantic_core import Url

from autogen_eventlog.codec.names import type_name
from autogen_eventlog.codec.objects import attribute_plan, empty
from autogen_eventlog.codec.plan import Plan
from autogen_eventlog.codec.primitives import decode_base64
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import DATA, TAG, Malformed, Node, Refusal, sole

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_INFO = "info"
_PLAIN_INFO = (str, int, float, bool, bytes, tuple)


def well_known(name: str) -> type | None:
    """The class of `name` if it is one of this module's and its own module is loaded already; imports nothing."""
    module, _, qualname = name.partition(":")
    if name not in _PLANS and name not in _DATACLASSES and module != AnyUrl.__module__:
        return None
    found = getattr(sys.modules.get(module), qualname, None)
    if not isinstance(found, type) or type_name(found) != name:
        return None
    return found if name not in _DATACLASSES or is_dataclass(found) else None


def foreign_plan(cls: type, name: str) -> Plan | None:
    """The plan for a class of another package; None if this module knows nothing of it."""
    if name in _PLANS:
        return _PLANS[name](cls, name)
    if issubclass(cls, AnyUrl) and cls.__module__ == AnyUrl.__module__:
        return _url_plan(cls, name)
    if any(base.__module__ == "google.protobuf.message" and base.__name__ == "Message" for base in cls.__mro__):
        return _protobuf_plan(cls, name)
    return None


def _protobuf_plan(cls: Any, name: str) -> Plan:
    key = "pb"

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        # partial: proto2 allows a message in memory that lacks required fields
        form[key] = b64encode(value.SerializePartialToString(deterministic=True)).decode("ascii")
        return form

    def decode(node: Node) -> object:
        message = cls()
        message.MergeFromString(decode_base64({DATA: node.pop(key, None), **node}))
        return message

    return Plan(name, encode, decode)


def _image_plan(cls: type, name: str) -> Plan:
    key = "png"

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        picture = _only_picture(value, name)
        form[key] = b64encode(_png(picture)).decode("ascii")
        form[_INFO] = walk.one(_plain_info(picture), depth + 1)
        return form

    def decode(node: Node) -> object:
        info = node.pop(_INFO, None)
        if type(info) is not dict:
            raise Malformed("the image's info is not a dict")
        image: object = empty(cls)
        image.__dict__["image"] = _picture(decode_base64({DATA: node.pop(key, None), **node}), cast(Node, info))
        return image

    return Plan(name, encode, decode)


def _only_picture(value: Any, name: str) -> Picture:
    picture = value.image
    if list(value.__dict__) != ["image"] or picture.mode != "RGB" or type(picture).__module__ != "PIL.Image":
        raise Refusal(name, "its picture was replaced by one that is not plain RGB, or it was given more attributes")
    return picture


def _png(picture: Picture) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    bare = picture.copy()
    bare.info = {}  # it stands beside the pixels; in the PNG some of it would change them
    bare.save(buffer, format="PNG")
    return buffer.getvalue()


def _plain_info(picture: Picture) -> dict[str, object]:
    # Pillow reads on from it when it saves; what it keeps in classes of its own is not written by AutoGen either
    return {str(key): item for key, item in picture.info.items() if type(item) in _PLAIN_INFO and _is_plain(item)}


def _is_plain(item: object) -> bool:
    return not isinstance(item, tuple) or all(type(part) in _PLAIN_INFO for part in cast("tuple[object, ...]", item))


def _picture(png: bytes, info: Node) -> Picture:
    from io import BytesIO

    from PIL import Image

    with cast(Any, Image).open(BytesIO(png), formats=["PNG"]) as opened:  # Pillow's own types are not all known
        picture: Picture = opened.convert("RGB")
    picture.info = {**info}
    return picture


def _url_plan(cls: type, name: str) -> Plan:
    def encode(value: Live, walk: Walk, depth: int) -> Node:
        return {TAG: name, DATA: walk.one(str(value), depth + 1)}

    def decode(node: Node) -> object:
        url: object = empty(cls)
        url.__dict__["_url"] = Url(sole(node, str))
        return url

    return Plan(name, encode, decode)


def _agent_id_plan(cls: type, name: str) -> Plan:
    return attribute_plan(cls, name, ("_type", "_key"), tracked=False)


def _secret_plan(cls: type, name: str) -> Plan:
    return attribute_plan(cls, name, ("_secret_value",), tracked=False)


_PLANS: dict[str, Callable[[type, str], Plan]] = {
    "autogen_core._image:Image": _image_plan,
    "autogen_core._agent_id:AgentId": _agent_id_plan,
    f"{SecretStr.__module__}:SecretStr": _secret_plan,
    f"{SecretBytes.__module__}:SecretBytes": _secret_plan,
}
_DATACLASSES = frozenset(
    {
        "autogen_core._agent_type:AgentType",
        "autogen_core._serialization:UnknownPayload",
        "autogen_core._topic:TopicId",
        "autogen_core._types:FunctionCall",
    }
)
"""AutoGen's own dataclasses that messages are made of: always allowed, planned as any dataclass."""
