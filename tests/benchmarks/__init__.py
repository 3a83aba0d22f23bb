"""Measurements, each run by hand with one command; their results, with machine and date, are in RESULTS.md."""
