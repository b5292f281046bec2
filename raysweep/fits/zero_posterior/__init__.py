"""The posterior of a mean curve near its zero, as a weighted mixture of Gaussian processes, without sample paths.

A zero needs the chance that the curve is positive at x, and nothing else. So, unlike `fits/posterior`, no paths are
drawn: `scatter` reduces the draws to sufficient statistics, `noise` weighs covariances of the noise, `shapes` has the
kernels of the mean curve and `breaks` its kinks and jumps, `mixture` weighs each of them by its evidence, and `root`
reads off the interval.
"""
