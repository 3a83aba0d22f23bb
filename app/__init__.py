"""The Pursuit service: HTTP, jobs, storage and command line around `core`."""
