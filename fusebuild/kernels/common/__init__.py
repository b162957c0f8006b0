"""What families of kernels share: iteration domains, storage, choices, the spec of a kernel, and its lines of CUDA.

Nothing here names a family.
"""
