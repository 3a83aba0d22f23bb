"""Durable jobs: a leased queue in the database, a supervisor per worker, and a child process that does the work."""
