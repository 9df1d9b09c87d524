"""What can be wrong with a file of tensors."""

from __future__ import annotations


class TraceFileBroken(Exception):
    """A file cannot be read, written or compared; the message goes on after the file's name."""
