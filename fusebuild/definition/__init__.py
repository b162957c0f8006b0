"""nvFuser's Python frontend: a Fusion recorded by calls instead of read from a recipe. Both say the same things.

::

    from fusebuild import DataType, FusionDefinition

    with FusionDefinition() as fd:
        t0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        t1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        c2 = fd.define_scalar(3.0)
        t3 = fd.ops.add(t0, t1)          # or t0 + t1
        t4 = fd.ops.mul(t3, c2)
        t5 = fd.ops.sum(t4, dims=[-1])
        fd.add_output(t5)

    fd.inputs(), fd.outputs(), fd.extents()      # [0, 1], [5], [-1, -2, -3, -4]
    print(fd)                                    # the definition as a function that records it again
    print(fd.to_yaml())                          # the recipe that computes the same, for `fusebuild compile`
    fd.segment()                                 # 1; fd.segments and fd.segment_index_space_maps tell more
    (total,) = fd.execute([x, y])                # compiled on first use, for the device of x

A script written for nvFuser records once its ``from nvfuser import …`` is changed. Every definition and every op takes
the next fid, in nvFuser's order; integers in a list given as a shape take none, integers in ``define_vector`` one each.

**Sizes.** A dim given as -1 is unknown until the call, and never a broadcast dim: those are declared as 1. Dims that
meet in an op are the same size from then on, and known once one of them is: where a shape says ``[56, 1024]`` and the
dims broadcast to it were -1, they are 56 and 1024 in the Fusion. A call with other sizes is refused. A size may be a
scalar that each call gives, too (:mod:`fusebuild.definition.sizes`).

**Contiguity** is listed as nvFuser lists it, from the outermost dim in memory to the innermost (``stride_order`` says
which dim that is), and is False for all dims unless given, as in nvFuser: say ``True`` for tensors that are dense.

Unlike nvFuser's, an output that is an input or an output already is a copy of it, with a fid of its own (``set``).
"""

from fusebuild.definition.fusion_definition import FusionDefinition
from fusebuild.definition.values import DataType, Scalar, Tensor, Vector

__all__ = ["DataType", "FusionDefinition", "Scalar", "Tensor", "Vector"]
