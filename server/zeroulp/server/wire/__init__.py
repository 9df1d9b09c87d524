"""The gRPC side: messages to plain calls and back, errors to statuses."""
