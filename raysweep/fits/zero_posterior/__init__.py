"""The posterior of a mean curve near its zero, as a weighted mixture of Gaussian processes, without sample paths.

A zero needs the chance that the curve is positive at x, and nothing else. So, unlike `fits/posterior`, no paths are
drawn: `noise` reduces the draws to sufficient statistics and weighs covariances of the noise, `shapes` has the kernels
of the mean curve, its kinks and jumps, `mixture` weighs each by its evidence, and `root` reads off the interval.
"""
