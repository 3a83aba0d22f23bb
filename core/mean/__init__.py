"""The mean from M rows, where the error bars come from d basis vectors.

Products with kernel matrices that are stored or made again, conjugate gradients for many right-hand sides at once,
left-out predictions by folds, variances from the nearest rows.
"""
