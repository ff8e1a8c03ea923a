"""From values to bytes and back: JSON, msgspec, pickle, or what the user brings."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from breakerkit._fields import show
from breakerkit.errors import ConfigError
from breakerkit.store.redis._sameness import same

if TYPE_CHECKING:
    from collections.abc import Callable

#: What is written in front of every value; another version of it is a miss.
VERSION = 1


@runtime_checkable
class Serializer(Protocol):
    """An object that makes bytes of a value and a value of bytes; a module will do."""

    def dumps(self, value: Any, /) -> bytes | str:
        """Return the bytes, or a text."""
        ...

    def loads(self, data: bytes, /) -> Any:
        """Return the value."""
        ...


Choice: TypeAlias = Literal["json", "pickle", "msgspec"] | Serializer


class Packing:
    """How a store writes values: with a header that says how, so that it reads no other's."""

    __slots__ = ("_dumps", "_head", "_loads", "_lossy")

    def __init__(self, choice: Any) -> None:
        name, self._dumps, self._loads = _chosen(choice)
        self._head = f"{VERSION}:{name}:".encode()
        self._lossy = name in ("json", "msgspec")

    def pack(self, value: Any) -> bytes:
        """Return the bytes to store.

        Raises:
            Exception: whatever the serializer raises.
        """
        body = self._dumps(value)
        return self._head + (body.encode() if isinstance(body, str) else bytes(body))

    def unpack(self, data: bytes) -> Any:
        """Return the value.

        Raises:
            ValueError: it was written by another version or serializer.
            Exception: whatever the serializer raises.
        """
        if not data.startswith(self._head):
            raise ValueError("written by another version or serializer")
        return self._loads(data[len(self._head) :])

    def alters(self, value: Any, data: bytes) -> bool:
        """Tell whether a value comes back as another one, or as one of another type."""
        try:
            return self._lossy and not same(value, self.unpack(data))
        except Exception:
            return True


def _chosen(choice: Any) -> tuple[str, Callable[[Any], Any], Callable[[bytes], Any]]:
    if choice == "json":
        return "json", json.JSONEncoder(separators=(",", ":")).encode, _from_json
    if choice == "pickle":
        import pickle  # noqa: PLC0415  # for those who ask for it; the page says what it means

        return "pickle", functools.partial(pickle.dumps, protocol=5), pickle.loads
    if choice == "msgspec":
        return "msgspec", *_msgspec()
    if isinstance(choice, Serializer) and not isinstance(choice, type):
        name = getattr(choice, "__name__", None) or type(choice).__qualname__
        return str(name), choice.dumps, choice.loads
    raise ConfigError(
        f"serializer={show(choice)}: must be 'json', 'msgspec', 'pickle',"
        " or an object with dumps(value) and loads(bytes)"
    )


_decode = json.JSONDecoder().raw_decode


def _from_json(data: bytes) -> Any:
    text = data.decode()
    # json.loads would look for the encoding first, and for blanks around it: there are none.
    value, end = _decode(text)
    if end != len(text):
        raise ValueError("there is more than one value")
    return value


def _msgspec() -> tuple[Callable[[Any], Any], Callable[[bytes], Any]]:
    try:
        from msgspec import msgpack  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ImportError("serializer='msgspec' needs the extra breakerkit[msgspec]") from error
    return msgpack.encode, msgpack.decode
