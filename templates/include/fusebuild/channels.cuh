// Walks over runs of neighbours in memory, one after another, without a division for each element.

#pragma once

#include "fusebuild/divide.cuh"

namespace fusebuild {

// From element `start` of all runs on by `step`: runs have `length` elements, at least one, and begin
// `stride` apart.
class RunWalk {
 public:
  FUSEBUILD_DEVICE RunWalk(unsigned start, unsigned step, unsigned length, unsigned stride)
      : length_(length),
        within_(start % length),
        within_step_(step % length),
        place_(start / length * stride + start % length),
        place_step_(step / length * stride + step % length),
        gap_(stride - length) {}

  // How far the element is from the first one of the first run.
  FUSEBUILD_DEVICE int place() const { return place_; }

  FUSEBUILD_DEVICE void next() {
    place_ += place_step_ + (count_on(within_, within_step_, length_) ? gap_ : 0);
  }

 private:
  int length_, within_, within_step_, place_, place_step_, gap_;
};

// The same of runs that are `own` channels of `inner` elements each.
class ChannelWalk {
 public:
  FUSEBUILD_DEVICE ChannelWalk(unsigned start, unsigned step, unsigned own, unsigned inner, unsigned stride)
      : own_(own),
        inner_(inner),
        channel_(start % (own * inner) / inner),
        within_(start % inner),
        channel_step_(step % (own * inner) / inner),
        within_step_(step % inner),
        place_(start / (own * inner) * stride + start % (own * inner)),
        place_step_(step / (own * inner) * stride + step % (own * inner)),
        gap_(stride - own * inner) {}

  FUSEBUILD_DEVICE int place() const { return place_; }
  FUSEBUILD_DEVICE int channel() const { return channel_; }

  FUSEBUILD_DEVICE void next() {
    const int carried = count_on(within_, within_step_, inner_);
    place_ += place_step_ + (count_on(channel_, channel_step_ + carried, own_) ? gap_ : 0);
  }

 private:
  int own_, inner_, channel_, within_, channel_step_, within_step_, place_, place_step_, gap_;
};

}  // namespace fusebuild
