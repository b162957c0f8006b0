// The one header that rendered kernels include.
//
// Only the platform layer knows what it runs on. It has two implementations: platform.cuh for CUDA, and
// host/platform.h for the CPU (-DFUSEBUILD_HOST), where a block's threads are fibers. Everything else is
// written once on top of it, so what CI tests on a CPU is the code that GPUs run.

#pragma once

#if defined(FUSEBUILD_HOST)
#include "fusebuild/host/platform.h"
#else
#include "fusebuild/platform.cuh"
#endif

#include "fusebuild/alike.cuh"
#include "fusebuild/batch.cuh"
#include "fusebuild/cast.cuh"
#include "fusebuild/channels.cuh"
#include "fusebuild/cluster.cuh"
#include "fusebuild/columns.cuh"
#include "fusebuild/divide.cuh"
#include "fusebuild/divisor.cuh"
#include "fusebuild/exact_sum.cuh"
#include "fusebuild/exchange.cuh"
#include "fusebuild/flat.cuh"
#include "fusebuild/math.cuh"
#include "fusebuild/members.cuh"
#include "fusebuild/order.cuh"
#include "fusebuild/partition.cuh"
#include "fusebuild/pieces.cuh"
#include "fusebuild/random.cuh"
#include "fusebuild/reduce.cuh"
#include "fusebuild/reduce_shaped.cuh"
#include "fusebuild/row_results.cuh"
#include "fusebuild/scan.cuh"
#include "fusebuild/shifted.cuh"
#include "fusebuild/staged.cuh"
#include "fusebuild/staying.cuh"
#include "fusebuild/stepping.cuh"
#include "fusebuild/striped.cuh"
#include "fusebuild/strips.cuh"
#include "fusebuild/tickets.cuh"
#include "fusebuild/tile.cuh"
#include "fusebuild/together.cuh"
#include "fusebuild/trailing.cuh"
#include "fusebuild/vec.cuh"
#include "fusebuild/warp_tiles.cuh"
#include "fusebuild/welford.cuh"

// The C library has its own exp, round and abs at global scope; rendered kernels say fb::exp and mean ours.
namespace fb = fusebuild;
