"""Settings of every test."""

import os
import signal

# Before anything imports numpy: the matrices of the tests are small, and threads that wait for each other on them
# make the suite ten times slower. What is set outside stays.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what it runs in the background with SIGINT ignored, and every process that a test starts would inherit
# that: Ctrl-C would not end it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
