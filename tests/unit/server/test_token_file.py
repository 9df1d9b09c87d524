"""A token file admits its token, as it stands at the moment, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zeroulp.server.token_file import TokenFile, TokenFileRefused


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("content", [b"secret", b"secret\n", b" \tsecret\r\n"])
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_the_token_without_the_space_around_it(tmp_path: Path, content: bytes, mode: int) -> None:
    token = TokenFile(written(tmp_path / "token", content, mode))
    assert token.read() == "secret"
    assert token.matches("secret")
    for other in ("", "secre", "secret ", "Secret", "secret\n", "sécret", "\udcff"):
        assert not token.matches(other)


def test_another_token_in_the_file_holds_at_once(tmp_path: Path) -> None:
    path = written(tmp_path / "token", b"first")
    token = TokenFile(path)
    assert token.matches("first")
    status = path.stat()
    written(path, b"other")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # not even the clock tells
    assert token.matches("other")
    assert not token.matches("first")
    written(tmp_path / "new", b"third").replace(path)
    assert token.matches("third")


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o666, 0o777])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    token = TokenFile(written(tmp_path / "token", b"secret", mode))
    with pytest.raises(TokenFileRefused, match=rf"open to all users .*\(mode {mode:04o}\).* chmod 600"):
        token.matches("secret")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"two words", "visible ASCII"),
        (b"a\nb", "visible ASCII"),
        ("é".encode(), "visible ASCII"),
        (b"a\0", "visible ASCII"),
        (b"x" * 4097, "more than 4096 bytes"),
    ],
)
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = written(tmp_path / "token", content)
    with pytest.raises(TokenFileRefused, match=rf"the token file {path} .*{told}"):
        TokenFile(path).read()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, told in (
        ("absent", "No such file"),
        (".", "cannot be read|not a regular"),
        ("pipe", "regular"),
    ):
        with pytest.raises(TokenFileRefused, match=told):
            TokenFile(tmp_path / name).read()
