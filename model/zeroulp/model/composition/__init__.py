"""Encoder, causal backbone and tied head, and the language model composed from them."""
