"""What ships: the plan, the check that it makes sense, and the ``.fuse`` file around it.

Whoever loads an artifact imports this package, so it imports nothing that compiles: no YAML, no Jinja, no torch, of
fusebuild only :mod:`fusebuild.errors` and :mod:`fusebuild.ir.formula`.
"""
