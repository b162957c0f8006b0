"""The view of ticket_counters, which has nothing but its counters."""

from __future__ import annotations

from fusebuild.body import Body
from fusebuild.schedule.kernel import KernelSpec
from fusebuild.views.kernel_view import KernelView, make_view


def ticket_counters(spec: KernelSpec) -> KernelView:
    return make_view(spec, Body(spec), ())
