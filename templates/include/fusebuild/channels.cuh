// Walks over what is `channels x inner` elements for each outer index, without a division for each of them.

#pragma once

#include "fusebuild/divide.cuh"

namespace fusebuild {

// From element `start` on by `step`, where `own` neighbouring channels have `inner` elements each that are
// neighbours in memory.
class ChannelWalk {
 public:
  FUSEBUILD_DEVICE ChannelWalk(int start, int step, int own, int inner)
      : own_(own),
        inner_(inner),
        outer_(start / (own * inner)),
        channel_(start % (own * inner) / inner),
        within_(start % inner),
        outer_step_(step / (own * inner)),
        channel_step_(step % (own * inner) / inner),
        within_step_(step % inner) {}

  // Which of the `own` channels the element belongs to.
  FUSEBUILD_DEVICE int channel() const { return channel_; }

  // Where the element is in a tensor of `channels`, in which the own ones are those from `first` on.
  FUSEBUILD_DEVICE int place(int first, int channels) const {
    return (outer_ * channels + first + channel_) * inner_ + within_;
  }

  FUSEBUILD_DEVICE void next() {
    const int carried = count_on(within_, within_step_, inner_);
    outer_ += outer_step_ + count_on(channel_, channel_step_ + carried, own_);
  }

 private:
  int own_, inner_;
  int outer_, channel_, within_;
  int outer_step_, channel_step_, within_step_;
};

}  // namespace fusebuild
