"""Settings of every test."""

import os

# Before anything imports numpy: the matrices of the tests are small, and threads that wait for each other on them
# make the suite ten times slower. What is set outside stays.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
