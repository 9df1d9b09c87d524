"""Models by name: built in, pulled, or a file of the caller's.

Knows names, digests and folders; what a model file contains is ``zeroulp.model.formats``' matter.
"""
