"""The daemon: engine, jobs, service and process. The only place where model and wire meet."""
