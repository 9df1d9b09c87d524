"""Model files on disk, read into this project's parameter names and shapes.

Knows nothing of kernels or of a server: what leaves here are a ``Configuration``, plain numpy arrays, a
tokenizer and the file's own metadata.
"""
