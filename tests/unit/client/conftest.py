from __future__ import annotations

from collections.abc import Iterator

import pytest

from unit.client.fake_decoder import FakeDecoder, serving
from zeroulp.client import Client


@pytest.fixture
def decoder() -> FakeDecoder:
    return FakeDecoder()


@pytest.fixture
def target(decoder: FakeDecoder) -> Iterator[str]:
    with serving(decoder) as target:
        yield target


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target) as client:
        yield client


@pytest.fixture
def default_target(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line finds the fake without being told."""
    monkeypatch.setenv("ZEROULP_TARGET", target)
