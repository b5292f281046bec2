"""One posterior over a whole surface of values, with its noise pooled: answers from one run per cell.

`slices` turns rows into cells, `posterior.fit_surface` fits them, `best` reads off best values, values alike and
regrets, and `law` ties the best values of slices by powers of their axes.
"""
