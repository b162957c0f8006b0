"""Families of kernels: what each accepts, how it lies on the chip, and the view that its template fills in.

A family is one folder here, its templates have a folder of the same name in ``templates/``, and
:mod:`fusebuild.kernels.families` has a line for it. Families import what is in ``common``; segmentation, planning and
the recipe's language are never imported here."""
