"""The view of ticket_counters, which has nothing but its counters."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, make_view


def ticket_counters(spec: KernelSpec) -> KernelView:
    return make_view(spec, Body(spec), ())
