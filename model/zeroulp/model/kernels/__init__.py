"""The arithmetic as machine code: every sum in the order that the definition gives it.

Kernels take and return plain arrays. They know no tensors, no models and no sessions. They vectorise
across outputs only: each lane keeps its own ascending sum, so that lanes, tiles and threads cannot
change a bit.
"""
