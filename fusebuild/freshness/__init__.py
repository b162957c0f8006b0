"""What is stale, and why: artifacts, the record beside them and the cache, compared with what recipes give now.

Nothing here decides what a kernel is: it asks :mod:`fusebuild.pipeline` and compares.
"""
