// Rows that clusters take as they get to them (sm_90 and later): a ticket says which is next. Multiprocessors
// are not equally fast, so each does as many rows as it can. Which cluster does a row changes from run to
// run; what it makes of it does not.

#pragma once

#include "fusebuild/cluster.cuh"

namespace fusebuild {

// Draws the cluster's next ticket, the first of which is 0. One thread has it then, as late as what is loaded
// from memory comes; all others have 0, so that the largest of all is the ticket.
template <int kCluster>
FUSEBUILD_DEVICE int draw_ticket(int* counter) {
  return cluster_rank<kCluster>() == 0 && thread_x() == 0 ? count_up(counter) : 0;
}

// The ticket, which has come: whoever needs it later does not wait for what is loaded from here on.
FUSEBUILD_DEVICE int await_ticket(int drawn) { return shuffle_index(drawn, 0); }

}  // namespace fusebuild
