"""Schema: columns to the design matrix of a model.

Fitted on the table of a training together with its options, kept with the model, applied to every later row.
"""
