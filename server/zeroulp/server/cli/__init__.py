"""The server's half of the command line: ``serve`` and ``pull``, each loaded only when it is run."""
