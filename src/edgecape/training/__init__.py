"""Training in three phases: base, pose-graph, structural bias."""
