"""The ``llama.*`` keys of a file, as a ``Configuration``; a key that changes results is never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zeroulp.model.configuration import Configuration
from zeroulp.model.errors import MalformedFile, UnsupportedModel
from zeroulp.model.formats.byte_cursor import quoted

ARCHITECTURE_KEY: Final = "general.architecture"
ARCHITECTURE: Final = "llama"
_PREFIX: Final = ARCHITECTURE + "."
_DEFAULT_ROPE_BASE: Final = 10000.0

_LAYERS: Final = "block_count"
_POSITIONS: Final = "context_length"
_WIDTH: Final = "embedding_length"
_FEED_FORWARD: Final = "feed_forward_length"
_HEADS: Final = "attention.head_count"
_KV_HEADS: Final = "attention.head_count_kv"
_EPSILON: Final = "attention.layer_norm_rms_epsilon"
_ROPE_BASE: Final = "rope.freq_base"
_WINDOW: Final = "attention.sliding_window"
_VOCABULARY: Final = "vocab_size"
_HEAD_WIDTHS: Final = ("rope.dimension_count", "attention.key_length", "attention.value_length")

# Keys whose other values would ask for arithmetic that is not served.
_ONLY_VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0.0, 1.0),
    "rope.scale_linear": (0.0, 1.0),
    "rope.scaling.attn_factor": (1.0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "use_parallel_residual": (False,),
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "tensor_data_layout": ("Meta AI original pth",),
}
# Keys that mean something only together with one that is refused above.
_WITHOUT_EFFECT: Final = ("rope.scaling.original_context_length", "rope.scaling.finetuned")
_KNOWN: Final = {
    *(_LAYERS, _POSITIONS, _WIDTH, _FEED_FORWARD, _HEADS, _KV_HEADS, _EPSILON, _ROPE_BASE, _WINDOW),
    *(_VOCABULARY, *_HEAD_WIDTHS, *_ONLY_VALUES, *_WITHOUT_EFFECT),
}


def check_architecture(metadata: Mapping[str, object]) -> None:
    """Refuse another architecture, and any ``llama.*`` key this project does not act upon.

    Raises ``UnsupportedModel`` naming the key, its value and what is allowed.
    """
    architecture = metadata.get(ARCHITECTURE_KEY)
    if architecture != ARCHITECTURE:
        shown = "absent" if architecture is None else _shown(architecture)
        raise UnsupportedModel(f"{ARCHITECTURE_KEY} is {shown}; only {ARCHITECTURE!r} is served")
    for key, value in metadata.items():
        name = key.removeprefix(_PREFIX)
        if name == key:
            continue
        if name not in _KNOWN:
            raise UnsupportedModel(f"the key {quoted(key)} is not known, and may change the arithmetic")
        allowed = _ONLY_VALUES.get(name)
        if allowed is not None and value not in allowed:
            raise UnsupportedModel(f"{key} is {_shown(value)}; only {_either(allowed)} is served")


def layer_count(metadata: Mapping[str, object]) -> int:
    """Return the number of blocks; raises ``MalformedFile`` if it is absent or no integer."""
    return _integer(metadata, _LAYERS)


def read_configuration(metadata: Mapping[str, object], vocabulary_size: int) -> Configuration:
    """Return the configuration that the ``llama.*`` keys describe.

    ``vocabulary_size`` is the number of rows of the stored table. Floats are the file's own 32-bit
    values, widened: an epsilon written as 1e-5 is ``float32(1e-5)``.

    Raises ``MalformedFile`` (a key that is absent, of another type, or contradicts the table) and
    ``UnsupportedModel`` (a head width, or any value that ``Configuration`` refuses).
    """
    heads = _integer(metadata, _HEADS)
    configuration = Configuration(
        vocabulary_size=vocabulary_size,
        model_width=_integer(metadata, _WIDTH),
        heads=heads,
        kv_heads=_integer(metadata, _KV_HEADS, heads),
        feed_forward_width=_integer(metadata, _FEED_FORWARD),
        layers=layer_count(metadata),
        max_positions=_integer(metadata, _POSITIONS),
        rope_base=_real(metadata, _ROPE_BASE, _DEFAULT_ROPE_BASE),
        rms_epsilon=_real(metadata, _EPSILON),
        context_window=_integer(metadata, _WINDOW) if _PREFIX + _WINDOW in metadata else None,
    )
    for name in _HEAD_WIDTHS:
        width = _integer(metadata, name, configuration.head_width)
        if width != configuration.head_width:
            raise UnsupportedModel(
                f"{_PREFIX}{name} is {width}; only the head width {configuration.head_width} is served"
            )
    stated = _integer(metadata, _VOCABULARY, vocabulary_size)
    if stated != vocabulary_size:
        raise MalformedFile(
            f"{_PREFIX}{_VOCABULARY} is {stated}, and the table token_embd.weight has {vocabulary_size} rows"
        )
    return configuration


def _integer(metadata: Mapping[str, object], name: str, default: int | None = None) -> int:
    value = metadata.get(_PREFIX + name, default)
    # A bool is an int to Python, and never a size.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MalformedFile(_absent_or(name, value, "an integer"))


def _real(metadata: Mapping[str, object], name: str, default: float | None = None) -> float:
    value = metadata.get(_PREFIX + name, default)
    if isinstance(value, float):
        return value
    raise MalformedFile(_absent_or(name, value, "a float"))


def _absent_or(name: str, value: object, wanted: str) -> str:
    if value is None:
        return f"the key {_PREFIX}{name} is absent"
    return f"{_PREFIX}{name} is {_shown(value)}; it must be {wanted}"


def _shown(value: object) -> str:
    return f"a list of {len(value)} values" if isinstance(value, list) else quoted(value)


def _either(allowed: tuple[object, ...]) -> str:
    return " or ".join(repr(value) for value in allowed)
