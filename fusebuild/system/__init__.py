"""What all other packages stand on: folders of fusebuild's own data, locks on folders, room on disks, processes, and
errors as programs read them.

A function here knows nothing of fusions, kernels or artifacts. It imports :mod:`fusebuild.errors` and nothing else.
"""
