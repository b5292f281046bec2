"""One posterior over a whole surface of values, with its noise pooled: answers from one run per cell.

`surface.fit_surface` takes rows; a `Surface` says best values, what is not told from them, regrets and zeros; `law.law`
ties the best values of the slices by powers of their axes. `few_draws` is an engine of its own, for best values alone.
"""
