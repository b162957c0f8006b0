"""``python -m fusebuild.cli`` is the command line, as ``python -m fusebuild`` is."""

from __future__ import annotations

from fusebuild.cli.main import main

main()
