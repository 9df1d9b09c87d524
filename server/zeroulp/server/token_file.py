"""The secret of the admin service, in a file that only its owner can read."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 4096
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class TokenFileRefused(Exception):
    """The file holds no token that can be used; the message names it and says why."""


class TokenFile:
    """Read at every question, so that another token in the file holds at once, and the old one no more."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def matches(self, token: str) -> bool:
        """Tell whether ``token`` is the file's, in a time that does not depend on how much of it is right.

        Raises ``TokenFileRefused`` as ``read`` does.
        """
        # As bytes, since only ASCII can be compared as text; no two texts become the same bytes.
        return hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self.read().encode())

    def read(self) -> str:
        """Return the token, without the white space around it.

        Raises ``TokenFileRefused`` for a file that is absent, no regular file, open to others, empty, or
        holds what cannot be sent as a token.
        """
        try:
            # Opening a pipe would otherwise wait for a writer.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                self._check_status(os.fstat(descriptor))
                content = file.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise TokenFileRefused(f"the token file {self._path} cannot be read: {reason}") from error
        return self._checked(content)

    def _check_status(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise TokenFileRefused(f"the token file {self._path} is not a regular file")
        if status.st_mode & _OTHERS:
            raise TokenFileRefused(
                f"the token file {self._path} is open to all users of this machine "
                f"(mode {stat.S_IMODE(status.st_mode):04o}); close it with: chmod 600"
            )

    def _checked(self, content: bytes) -> str:
        token = content.strip()
        if not token:
            raise TokenFileRefused(f"the token file {self._path} is empty")
        if len(content) > _MOST_BYTES:
            raise TokenFileRefused(f"the token file {self._path} has more than {_MOST_BYTES} bytes")
        # What a header can carry: visible ASCII without spaces.
        if not all(0x21 <= byte <= 0x7E for byte in token):
            raise TokenFileRefused(
                f"the token file {self._path} must hold one token of visible ASCII characters without spaces"
            )
        return token.decode("ascii")
