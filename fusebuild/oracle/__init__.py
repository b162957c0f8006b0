"""What is right: Fusions evaluated in torch, op by op, the bounds of what may differ, and artifacts held against both.

torch is imported by functions, never by modules. Compilers and kernels are never imported here.
"""
