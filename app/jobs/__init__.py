"""The durable queue: jobs as rows, leased by workers whose supervisor runs each job in a child process.

It knows nothing of what a job does (`app.worker` gives it the handlers) and nothing of the store.
"""
