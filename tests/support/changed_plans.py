"""Plans with one thing changed."""

from __future__ import annotations

from typing import Any

import msgspec

from fusebuild.artifact.plan import Plan


def with_target(plan: Plan, **changes: Any) -> Plan:
    return msgspec.structs.replace(plan, targets=(msgspec.structs.replace(plan.targets[0], **changes),))


def with_slot(plan: Plan, size: Any) -> Plan:
    first, *rest = plan.targets[0].workspace
    return with_target(plan, workspace=(msgspec.structs.replace(first, bytes=size), *rest))
