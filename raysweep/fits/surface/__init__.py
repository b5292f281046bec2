"""One posterior over a whole surface of values, with its noise pooled: answers from one run per cell."""
