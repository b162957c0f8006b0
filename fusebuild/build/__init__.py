"""Kernels as text in, objects out: toolchains, the generated ``build.ninja``, the store of objects, and the record of
what was made from what.

It compiles what it is given and decides nothing about it: kernels and plans are never imported here.
"""
