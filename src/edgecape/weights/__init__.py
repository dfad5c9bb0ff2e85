"""Weights from elsewhere: backbone sources and official checkpoints."""
