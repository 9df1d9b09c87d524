"""The model: arithmetic, composition, caches, sessions and file formats.

Knows no wire, no server and no client; everything here can be used in-process.
"""
