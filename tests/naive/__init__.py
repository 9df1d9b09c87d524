"""The obvious slow versions: oracles for the fast ones, in plain scalar Python."""
