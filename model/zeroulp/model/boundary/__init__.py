"""What the reference fixture ``boundary-39`` shows: full, cached and backward passes, and every refusal.

Everything is computed when it is asked for; what should come out is known to the specification and the tests.
"""
