"""Training jobs: submitted by the API, run by a worker's child, published by the supervisor.

The place of categories that training has not seen is chosen here too.
"""
