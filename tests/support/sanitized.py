"""The recipes whose kernels run under AddressSanitizer and UBSan.

A sanitized kernel takes the compiler twice as long as any other, so these are few; ``test_variants_run.py`` says what
they have to show between them. Those that it could do without have what is likeliest to lead out of a tensor: elements
read elsewhere, gaps, permuted dims, rows a little longer than a vector or than what the blocks before the last have.
"""

from __future__ import annotations

from support.places import TESTS

SANITIZED = [
    TESTS / "fusions" / f"{name}.yaml"
    for name in ("batches_outer", "batches_persistent", "batches_split", "both_ways", "channels", "cluster_levels",
                 "crossing_rows", "edged_rows", "edged_tiles", "folded_rows", "index_edges", "indexing",
                 "indexing_rows", "inner_outer_mixed", "inner_outer_odd", "inner_outer_shared", "inner_outer_staged",
                 "inner_outer_tiled", "inner_outer_whole", "lambdas_inner", "layouts", "mixed_chain", "moments",
                 "moments_split", "odd_rows", "odd_transposes", "ordered_ranks", "outer_normalization", "permutations",
                 "persistent_flags", "persistent_strided", "reductions_whole", "resident_rows", "rows_walked",
                 "sampled_rows", "specialized", "specialized_rows", "strided_moments", "threaded_rows",
                 "walked_elements")
]  # fmt: skip
