"""Every fact of an op: its signature, its type rule, its CUDA text, what it means for numbers, and the builder that
makes exprs of it.

An op is added as one entry of :mod:`fusebuild.ops.table`. Recipes, definitions, passes and kernels read these facts
and are never imported here.
"""
