"""Models that travel: a published version as ONNX, or as one file of numpy.

Each writes the same steps: cells to inputs, missing cells completed, the process, the target's own unit.
"""
