// The functions of partition.cuh, one block of a partition a thread.

#include <fusebuild/kernel.cuh>

// Where the places of each block begin, one more than there are blocks.
FUSEBUILD_KERNEL(128, 1)
begins(int64_t* __restrict__ out, int64_t outers, int64_t depth, int64_t blocks) {
  const int64_t block = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (block <= blocks) out[block] = fb::partition(outers, depth, blocks).begin(block);
}
FUSEBUILD_ENTRY(begins)

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
  const fb::Partition share = fb::whole_partition(outers, depth, blocks);
  const int64_t block = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (block <= blocks) out[block] = share.begin(block);
  if (block == 0) out[blocks + 1] = share.blocks;
  if (block == 0) out[blocks + 2] = share.most_parts;
}
FUSEBUILD_ENTRY(whole_begins)
