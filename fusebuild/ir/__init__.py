"""The intermediate representation: values, exprs and formulas over extents, frozen, and no op.

Nothing here is changed once it is made: a pass makes another Fusion. It imports :mod:`fusebuild.errors` and nothing
else."""
