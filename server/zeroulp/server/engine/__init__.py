"""The engine: one compute thread, the calls that wait for it, and the sessions. Knows no gRPC."""
