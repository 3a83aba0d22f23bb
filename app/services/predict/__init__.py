"""Prediction: what may be asked of a model, the models in memory, rows to inputs, and who computes where.

Registry and catalogue generations resolve a reference; decoders read rows; the batcher runs the model.
"""
