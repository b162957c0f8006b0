// The coordinates of stepping.cuh, those of a row after the other: a thread each.

#include <fusebuild/kernel.cuh>

FUSEBUILD_KERNEL(128, 1)
stepped_rows(int64_t* __restrict__ out, int64_t first, int64_t middle, int64_t inner, int64_t steps) {
  fb::SteppingRow<128, 2> row(first + fb::thread_x(), middle, inner);
  for (int64_t i = 0; i < steps; ++i) {
    int64_t* own = out + (i * 128 + fb::thread_x()) * 3;
    for (int axis = 0; axis < 3; ++axis) own[axis] = row[axis];
    row.step();
  }
}
FUSEBUILD_ENTRY(stepped_rows)
