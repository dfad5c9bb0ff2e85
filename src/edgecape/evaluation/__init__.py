"""Episodes, metrics and baselines of the evaluation protocol."""
