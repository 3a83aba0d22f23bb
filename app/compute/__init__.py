"""Sums over the rows of one very large training, made by a Dask cluster: `core.numeric.shards` behind its scheduler."""
