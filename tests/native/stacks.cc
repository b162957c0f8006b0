// Lends stacks to kernels that tests call without the executor.
#include "fusebuild/host/stacks.h"

extern "C" const fusebuild::host::Stacks* lend_stacks() {
  static thread_local fusebuild::host::StackPool pool;
  static thread_local fusebuild::host::Stacks lent;
  lent = pool.lend();
  return &lent;
}
