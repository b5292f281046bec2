"""A Gaussian-process posterior of the mean curve of noisy draws, as joint sample paths.

`curve.py` is the door: `curve_posterior` takes the draws of one curve, and every answer (a place, a zero, a width with
more draws) is a functional of the paths of its result.
"""
