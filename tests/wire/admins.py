"""Calls to the admin service, and model files for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from wire.models import known_model, seeded
from wire.serving import Serving, serving
from zeroulp.model.composition.language_model import LanguageModel
from zeroulp.model.formats.safetensors import save_model
from zeroulp.model.loading import LoadedModel, load
from zeroulp.server.token_file import TokenFile
from zeroulp.v1 import admin_pb2 as pb
from zeroulp.v1 import decoder_pb2
from zeroulp.v1.admin_pb2_grpc import AdminServiceStub

TOKEN = "open-sesame"
OLD = known_model("grouped-query-7")
CONFIGURATION = OLD.model.configuration
NEW = seeded("new", CONFIGURATION, 1234)
"""Other weights of the same configuration."""

BEARER = (("authorization", f"Bearer {TOKEN}"),)


def write_token(path: Path, token: str = TOKEN) -> Path:
    """Write a token file as an operator would."""
    path.touch(mode=0o600)
    path.write_text(f"{token}\n")
    return path


def write_model(path: Path, loaded: LoadedModel, model: LanguageModel | None = None) -> str:
    """Save a model, or another one of its kind, with its tokenizer; return the path as text."""
    kept = model or loaded.model
    save_model(path, kept.configuration, kept.parameters, loaded.tokenizer)
    return str(path)


def reload(channel: grpc.Channel, path: str = "") -> pb.ReloadModelResponse:
    """Call ReloadModel with the token."""
    return AdminServiceStub(channel).ReloadModel(pb.ReloadModelRequest(path=path), metadata=BEARER)


def model_of(serving: Serving) -> decoder_pb2.GetModelResponse:
    """Return what GetModel tells."""
    return serving.stub.GetModel(decoder_pb2.GetModelRequest())


@contextmanager
def administered(folder: Path, path: str) -> Iterator[Serving]:
    """Serve a model with an admin service whose token file is ``folder/token``."""
    with serving(load(path), admin_token=TokenFile(write_token(folder / "token"))) as served:
        yield served
