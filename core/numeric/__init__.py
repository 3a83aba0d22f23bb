"""Numerics that know nothing of Gaussian processes.

Linear algebra, triangular products, memory to write into, threads, and sums over shards of rows.
"""
