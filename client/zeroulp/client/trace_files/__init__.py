"""Files of traced tensors, and their comparison. Needs the extra ``trace``: numpy and safetensors.

The one part of the client that knows an array library; nothing of the base install imports it.
"""
