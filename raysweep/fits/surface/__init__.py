"""One posterior over all slices of a surface, whose noise is pooled, so that one run per cell is enough.

`fit_surface` takes rows; a `Surface` says best values, what is not told from them, regrets and zeros; `law` ties the
best values of the slices by powers of their axes.
"""
