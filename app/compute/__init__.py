"""Sums over the rows of one very large training, made by a Dask cluster: `core.sharding` behind its scheduler."""
