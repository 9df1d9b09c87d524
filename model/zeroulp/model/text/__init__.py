"""Text and tokens: tokenizers, streamed decoding, stop strings and chat templates.

Knows neither the model's arithmetic nor how a token is chosen.
"""

from zeroulp.model.text.chat import ChatMessage, ChatTemplate
from zeroulp.model.text.document_bpe import DocumentBpe
from zeroulp.model.text.gguf import chat_template_from_gguf, tokenizer_from_gguf
from zeroulp.model.text.stops import StopMatcher
from zeroulp.model.text.stream import StreamDecoder
from zeroulp.model.text.tokenizer import Tokenizer

__all__ = [
    "ChatMessage",
    "ChatTemplate",
    "DocumentBpe",
    "StopMatcher",
    "StreamDecoder",
    "Tokenizer",
    "chat_template_from_gguf",
    "tokenizer_from_gguf",
]
