"""The server's half of the command line, each command loaded only when it is run."""
