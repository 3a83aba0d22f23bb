"""HTTP that all routes share: bodies, uploads, answers, problem documents, middleware, threads.

A route imports from here and from the services, and holds what is its own.
"""
