"""A version of a model as one HTML file: figures, scores, columns, settings. It asks no other file and no host.

`page` is the whole, `figures` the plots (`app.plots`) of the documents that the API answers with, `html` its markup.
"""
