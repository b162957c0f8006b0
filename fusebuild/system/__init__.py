"""What the operating system gives: folders of fusebuild's own data, locks on folders, room on disks, processes.

A function here knows nothing of fusions, kernels or artifacts. It imports :mod:`fusebuild.errors` and nothing else.
"""
