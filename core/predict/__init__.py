"""A trained model and its predictions, without a training row.

Predictor, calibrated distribution of a target, transforms, smaller forms of a model, scores against truths.
"""
