"""The language of recipes: YAML whose every node knows where it stands, and a body with Python's grammar.

A recipe becomes a Fusion here, or a list of located errors. Nothing here knows of targets, kernels or compilers.
"""
