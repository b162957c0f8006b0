"""One digest of many facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def digest_of(items: Sequence[object]) -> str:
    """The hex digest of ``items``, which are values of JSON."""
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()
