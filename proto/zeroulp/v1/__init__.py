"""The wire contract of zeroulp, generated from ``decoder.proto`` and ``errors.proto``."""
