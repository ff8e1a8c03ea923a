"""One client of the recorded service: a kept connection, and an exception for every answer that is an error."""

from __future__ import annotations

import http.client
import select
from http import HTTPStatus

__all__ = ["CONNECTION_ERRORS", "CallerError", "Client", "ServerError"]

#: What a broken or refused connection raises.
CONNECTION_ERRORS = (OSError, http.client.HTTPException)


class CallerError(Exception):
    """Say that the service answered, and the call was at fault (4xx)."""


class ServerError(Exception):
    """Say that the service was at fault (5xx)."""


class Client:
    """A client for one thread.

    Args:
        port: where the service listens on this machine.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, port: int, timeout: float) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def fetch(self, number: int) -> bool:
        """Make the recorded call again.

        Returns:
            Whether the answer was right; a wrong one comes with a good status.

        Raises:
            Exception: as `get` does.
        """
        return self.get(f"/call/{number}")[0]

    def get(self, path: str) -> tuple[bool, str]:
        """Ask for a path.

        Returns:
            Whether the answer was right, and what stands in it.

        Raises:
            CallerError: for 4xx.
            ServerError: for 5xx.
            OSError: if the connection broke or was refused.
            http.client.HTTPException: if there was no answer, or half of one.
        """
        self._drop_if_stale()
        try:
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            body = response.read()
        except CONNECTION_ERRORS:
            self._connection.close()
            raise
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ServerError(response.status)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise CallerError(response.status)
        return response.headers["X-Answer"] != "wrong", body.decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _drop_if_stale(self) -> None:
        # A kept connection that has something to read while nothing was asked has
        # been closed by the service: call anew, as HTTP clients do.
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self._connection.close()
