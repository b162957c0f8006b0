"""Measuring artifacts on a GPU, beside eager torch, torch.compile and copies; ``measure.py`` says how."""
