"""What a plan is scheduled and compiled for: a row for each target, and the target of a device at hand.

A target is added as one row of :mod:`fusebuild.target.table`. Nothing here knows of fusions or kernels.
"""
