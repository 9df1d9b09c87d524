"""Looking into a pass: which stages it has, the tracer that keeps them, and the map of the model."""
