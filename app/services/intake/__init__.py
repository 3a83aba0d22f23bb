"""Tables on their way in: read, checked against a specification, described and stored.

Uploaded datasets and the tables of training requests come through here.
"""
