"""A script as it goes over the wire, by its text or by the digest by which a server knows it (RESP)."""

from __future__ import annotations

import hashlib


class Script:
    """A script and the digest by which the server knows it."""

    __slots__ = ("_known", "_whole", "digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self._known = _strings(b"EVALSHA", self.digest.encode())
        self._whole = _strings(b"EVAL", text.encode())

    def packed(self, key: bytes, args: tuple[bytes | int, ...], *, known: bool) -> bytes:
        """Return the command as it goes over the wire (RESP), for one key.

        Args:
            key: the key.
            args: its arguments.
            known: whether the server knows the script.
        """
        if not args and known:  # a read: most of all
            return b"*4\r\n%b$1\r\n1\r\n$%d\r\n%b\r\n" % (self._known, len(key), key)
        return self.packed_for([key], args, known=known)

    def packed_for(self, keys: list[bytes], args: tuple[bytes | int, ...], *, known: bool) -> bytes:
        """Return the same for some keys."""
        head = self._known if known else self._whole
        rest = (len(keys), *keys, *args)
        return b"*%d\r\n%b%b" % (len(rest) + 2, head, _strings(*rest))


def words(*said: bytes | int) -> bytes:
    """Return a command as it goes over the wire."""
    return b"*%d\r\n%b" % (len(said), _strings(*said))


def _strings(*said: bytes | int) -> bytes:
    texts = [one if isinstance(one, bytes) else b"%d" % one for one in said]
    return b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])
