"""Tuning: kernels measured beside their neighbours, one step of one knob at a time; ``climb.py`` says how."""
