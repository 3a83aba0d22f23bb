"""Tests of the queue, the supervisor and the child, with real databases and real processes."""
