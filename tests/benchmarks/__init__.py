"""Measurements, each run by hand with one command.

What they printed is in `results/`, with machine and date. RESULTS.md sums it up and names only figures that are there.
"""
