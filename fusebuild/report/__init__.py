"""What fusebuild says about plans, artifacts, caches and machines: as text, as JSON by a published schema, as a page.

Reports read what others made and change nothing.
"""
