"""Reading keypoint data sets, drawing episodes, caching features."""
