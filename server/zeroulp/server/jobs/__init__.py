"""One file per kind of call: how it starts, what it puts into a step, and what it makes of the result."""
