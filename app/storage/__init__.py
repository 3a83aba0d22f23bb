"""The store: files under the hash of their content, the catalogue of models, versions and aliases, the datasets.

It knows nothing of jobs; a version and the end of its job are written in one transaction that the caller opens.
"""
