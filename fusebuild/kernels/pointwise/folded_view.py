"""The view of pointwise kernels whose threads have vectors that are whole folded rows apart."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Sweep, make_view
from fusebuild.kernels.pointwise.folded import repeats


def pointwise_folded(spec: KernelSpec) -> KernelView:
    domain, body = spec.domain, Body(spec)
    outputs = body.task.outputs
    exprs, reads = body.closure(outputs), body.reads(outputs)
    flat = [fid for fid in reads if fid in domain.flat]
    repeated = [fid for fid in reads if repeats(domain, domain.accesses[fid])]
    single = [fid for fid in reads if not domain.accesses[fid].axes]
    steady = steady_of(body, exprs, dict.fromkeys(repeated, 0), outputs)
    made = [fid for fid in steady.kept if fid not in repeated]
    used, needed = body.roots(steady.exprs, ()), body.roots(body.closure(outputs, steady.kept), outputs)
    moving = body.of_tensors(body.closure(outputs, [*steady.kept, *single]))
    kept = Sweep(
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in made),
        loads=(
            *(body.scalar_load(fid, f"T{fid}[0]") for fid in single),
            *(_repeated_load(body, fid) for fid in repeated),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in repeated if fid in used),
            *(body.statement(expr) for expr in steady.exprs),
            *(f"v{fid}[k] = t{fid};" for fid in made),
        ),
    )
    own = Sweep(
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid};" for fid in flat),
        loads=tuple(
            f"p{fid} = fb::load_packed_up_to<kVec, fb::Hint::kAhead>(T{fid} + place, total - place);" for fid in flat
        ),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid});" for fid in flat),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in (*steady.kept, *flat) if fid in needed),
            *(body.statement(expr) for expr in moving),
            *(f"v{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
        ),
        stores=tuple(f"fb::store_up_to(T{fid} + i, v{fid}, total - i);" for fid in outputs),
    )
    return make_view(body, exprs, sweeps=(kept, own), extents={"total": body.size(domain.every)})


def _repeated_load(body: Body, fid: int) -> str:
    """The line that loads what tensor ``fid`` has for the thread's vector of a folded row."""
    access = body.domain.accesses[fid]
    within = body.domain.every[access.axes[-1] + 1 :]
    count, declaration = f"Index({body.size(access.axes)})", f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid}"
    if not within:
        return f"{declaration} = fb::load_around<kVec>(T{fid}, place % {count}, {count});"
    return f"{declaration} = fb::load_runs<kVec>(T{fid}, place, {count}, Index({body.size(within)}));"
