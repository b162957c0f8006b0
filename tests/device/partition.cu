// The functions of partition.cuh, one block of a partition a thread.

#include <fusebuild/kernel.cuh>

// Where the places of each block begin, one more than there are blocks.
FUSEBUILD_KERNEL(128, 1)
begins(int64_t* __restrict__ out, int64_t outers, int64_t depth, int64_t blocks) {
  const int64_t block = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (block <= blocks) out[block] = fb::partition(outers, depth, blocks).begin(block);
}
FUSEBUILD_ENTRY(begins)

// The same in 32 bits.
FUSEBUILD_KERNEL(128, 1)
short_begins(int64_t* __restrict__ out, int64_t outers, int64_t depth, int64_t blocks) {
  const int block = fb::block_x() * 128 + fb::thread_x();
  if (block <= blocks) out[block] = fb::partition(int(outers), int(depth), int(blocks)).begin(block);
}
FUSEBUILD_ENTRY(short_begins)

// The block that has the first place of each outer index, and the parts that an index has at most.
FUSEBUILD_KERNEL(128, 1)
first_blocks(int64_t* __restrict__ out, int64_t* __restrict__ parts, int64_t outers, int64_t depth,
             int64_t blocks) {
  const int64_t outer = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (outer == 0) parts[0] = fb::partition(outers, depth, blocks).most_parts;
  if (outer < outers) out[outer] = fb::partition(outers, depth, blocks).first_block(outer);
}
FUSEBUILD_ENTRY(first_blocks)

// Where the places of each block begin that has whole indices; then how many blocks there are, and parts.
FUSEBUILD_KERNEL(128, 1)
whole_begins(int64_t* __restrict__ out, int64_t outers, int64_t depth, int64_t blocks) {
  const auto share = fb::whole_partition(outers, depth, blocks);
  const int64_t block = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (block <= blocks) out[block] = share.begin(block);
  if (block == 0) out[blocks + 1] = share.blocks;
  if (block == 0) out[blocks + 2] = share.most_parts;
}
FUSEBUILD_ENTRY(whole_begins)

// The rows that a walker has, in order, from `out[walker * rows]` on, and how many they are.
FUSEBUILD_KERNEL(128, 1)
walked(int64_t* __restrict__ out, int64_t* __restrict__ counts, int64_t columns, int64_t rows, int64_t run,
       int64_t walkers) {
  const int64_t walker = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (walker >= (walkers < rows ? walkers : rows)) return;
  const fb::WalkedRows found = fb::walked_rows<8>(columns, rows, run, walker, walkers);
  counts[walker] = found.count;
  int64_t row = found.first;
  for (int64_t at = 0; at < found.count; ++at, row = found.after(row, rows)) out[walker * rows + at] = row;
}
FUSEBUILD_ENTRY(walked)
