"""``python -m fusebuild`` is the command line."""

from __future__ import annotations

from fusebuild.cli.main import main

if __name__ == "__main__":
    main()
