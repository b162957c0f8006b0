"""From a KernelSpec to the one frozen KernelView that a template fills in.

Every decision is made here or before; a template only places the lines.
"""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.schedule.kernel import KernelSpec
from fusebuild.views.edged_tiles import inner_edged_tiles
from fusebuild.views.finish import reduction_finish
from fusebuild.views.inner import inner_persistent, reduction_inner
from fusebuild.views.inner_outer import inner_outer_persistent
from fusebuild.views.kernel_view import KernelView
from fusebuild.views.outer import reduction_outer
from fusebuild.views.pointwise import pointwise
from fusebuild.views.pointwise_rows import pointwise_rows
from fusebuild.views.resident import inner_resident
from fusebuild.views.scan import scan, scan_outer
from fusebuild.views.threaded import inner_threaded
from fusebuild.views.tickets import ticket_counters
from fusebuild.views.tiled import inner_tiled
from fusebuild.views.transpose import transpose

_VIEWS: dict[str, Callable[[KernelSpec], KernelView]] = {
    "pointwise": pointwise,
    "pointwise_rows": pointwise_rows,
    "transpose": transpose,
    "inner_persistent": inner_persistent,
    "inner_resident": inner_resident,
    "inner_tiled": inner_tiled,
    "inner_edged_tiles": inner_edged_tiles,
    "inner_threaded": inner_threaded,
    "inner_outer_persistent": inner_outer_persistent,
    "reduction_inner": reduction_inner,
    "reduction_outer": reduction_outer,
    "reduction_finish": reduction_finish,
    "ticket_counters": ticket_counters,
    "scan": scan,
    "scan_outer": scan_outer,
}


def view_of(spec: KernelSpec) -> KernelView:
    """The view of ``spec``, by its template."""
    return _VIEWS[spec.template](spec)
