"""How models cut a text into words before their byte-pair merges, by ``tokenizer.ggml.pre``.

Each entry is what the family's own ``tokenizer.json`` does. A name is listed only where that is known
for certain: a wrong cut gives other ids without any error, so an unlisted name is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

# The patterns are the models' own. They run in the tokenizers library's regex engine (Oniguruma), as
# they do there.
_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA_3: Final = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
)
_QWEN_2: Final = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _LINES_AND_SPACES
)
_TEKKEN: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _LINES_AND_SPACES
)
_DEEPSEEK_3: Final = (
    r"\p{N}{1,3}",
    r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|" + _LINES_AND_SPACES,
)
_DEEPSEEK_CODER: Final = (
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
    r"\p{N}",
)


@dataclass(frozen=True, slots=True)
class PreTokenizerRule:
    """How one family cuts text.

    ``patterns`` cut one after the other, each inside the pieces of the one before; without any, the
    GPT-2 pattern cuts. ``digits`` isolates every digit before. ``nfc`` composes the text first.
    ``ignore_merges`` takes a piece that is a token as that token, whatever the merges would make of
    it. ``adds_begin`` says whether the begin token is wanted where a file does not say.
    """

    patterns: tuple[str, ...] = ()
    digits: bool = False
    nfc: bool = False
    ignore_merges: bool = False
    adds_begin: bool = False

    def build(self) -> PreTokenizer:
        """Return the cutter, which also spells bytes as the GPT-2 alphabet."""
        steps: list[PreTokenizer] = [Digits(individual_digits=True)] if self.digits else []
        steps += [Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        return Sequence([*steps, ByteLevel(add_prefix_space=False, use_regex=not self.patterns)])


_GPT_2_RULE: Final = PreTokenizerRule()
_DIGITS_RULE: Final = PreTokenizerRule(digits=True)
_LLAMA_3_RULE: Final = PreTokenizerRule((_LLAMA_3,), ignore_merges=True, adds_begin=True)

PRE_TOKENIZERS: Final[dict[str, PreTokenizerRule]] = {
    "codeshell": _DIGITS_RULE,
    "command-r": PreTokenizerRule(digits=True, nfc=True),
    "deepseek-coder": PreTokenizerRule(_DEEPSEEK_CODER),
    "deepseek-v3": PreTokenizerRule(_DEEPSEEK_3),
    "gpt-2": _GPT_2_RULE,
    "llama-bpe": _LLAMA_3_RULE,
    "llama-v3": _LLAMA_3_RULE,
    "llama3": _LLAMA_3_RULE,
    "mpt": PreTokenizerRule(nfc=True),
    "olmo": PreTokenizerRule(nfc=True),
    "phi-2": _GPT_2_RULE,
    "qwen2": PreTokenizerRule((_QWEN_2,), nfc=True),
    "refact": _DIGITS_RULE,
    "smollm": _DIGITS_RULE,
    "starcoder": _DIGITS_RULE,
    "tekken": PreTokenizerRule((_TEKKEN,), ignore_merges=True, adds_begin=True),
}
