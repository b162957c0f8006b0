"""How Sphinx builds these pages: ``make docs``."""

project = "fusebuild"
copyright = "the fusebuild authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "fusebuild"
html_show_copyright = False
myst_heading_anchors = 3
"""Links name headings as GitHub does."""
