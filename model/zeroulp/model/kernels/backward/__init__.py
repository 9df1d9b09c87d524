"""Gradients as machine code: what goes back through each operation, its sums in ascending order too.

Values come from the kernels of the forward, and matrix products both ways from the one product kernel.
Results are outputs of their own: no sum is split over parts, so threads cannot change a bit.
"""
