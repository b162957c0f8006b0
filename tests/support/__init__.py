"""What tests share. Plans, recipes and artifacts made by hand, random Fusions, stand-ins for compilers, devices and
drivers, and where the repository's files are. Nothing here is a test, and nothing here imports one.
"""
