"""What a server says (RESP 2), whoever reads it: a reply asks for its lines, and for so many bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import InvalidResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

#: Asks for a line instead of a number of bytes.
LINE = 0
#: Bytes of a line, which holds a number or the text of an error.
LONGEST_LINE = 65_536
#: Bytes that have a timeout of their own: what is larger than this is sent in such pieces.
PIECE = 1_000_000
#: Such pieces of a reply: more than the largest text that a server holds.
MOST_PIECES = 600
#: Lists in lists; what we ask for has one list in another.
DEEPEST = 5


def reply(error_of: Callable[[str], Any], depth: int = 0) -> Generator[int, bytes, Any]:
    """Ask for what comes, line by line, and return what the server has said; an error is returned too.

    Args:
        error_of: makes an error of its text.
        depth: lists around this.

    Raises:
        InvalidResponse: that is no reply.
    """
    head = yield LINE
    kind, rest = head[:1], head[1:]
    if kind == b"$":
        size = _number(rest)
        return None if size < 0 else (yield size + 2)[:-2]
    if kind == b":":
        return int(rest)
    if kind == b"+":
        return rest
    if kind == b"-":
        return error_of(rest.decode(errors="replace"))
    if kind == b"*" and depth < DEEPEST:
        count = _number(rest)
        if count < 0:
            return None
        items: list[Any] = []
        while len(items) < count:
            items.append((yield from reply(error_of, depth + 1)))
        return items
    raise InvalidResponse(f"no reply: {head[:40]!r}")


def _number(text: bytes) -> int:
    if text == b"-1":
        return -1
    if not text.isdigit() or (number := int(text)) > MOST_PIECES * PIECE:
        raise InvalidResponse(f"no size: {text[:40]!r}")
    return number
