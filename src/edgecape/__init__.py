"""EdgeCape: keypoints on every photo from one marked photo."""
