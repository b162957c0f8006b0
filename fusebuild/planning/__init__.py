"""From segments and their schedules to the serialized plan: launches, slots, choices that were tuned or eased.

Plans are made here and checked in :mod:`fusebuild.artifact`. Recipes are read before and objects are compiled after;
neither is done here.
"""
