// Which blocks of a pose are close enough for their atoms to interact.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "energy/vec3.h"

namespace tmol_plugin {

// The smallest box, along the axes, that holds a block's atoms.
struct Box {
  Vec3<float> low, high;
};

// The squared distance of two boxes, 0 where they overlap.
inline float gap_sq(const Box& a, const Box& b) {
  const auto gap = [](float a_low, float a_high, float b_low, float b_high) {
    return std::max(0.0f, std::max(a_low - b_high, b_low - a_high));
  };
  const float x = gap(a.low.x, a.high.x, b.low.x, b.high.x);
  const float y = gap(a.low.y, a.high.y, b.low.y, b.high.y);
  const float z = gap(a.low.z, a.high.z, b.low.z, b.high.z);
  return x * x + y * y + z * z;
}

struct Kernels;

class Neighbors {
 public:
  // Pairs of blocks whose boxes are less than `reach` angstrom apart. The cost grows linearly
  // with the blocks of a folded chain.
  Neighbors(std::span<const Box> boxes, float reach, const Kernels& kernels);

  // The later neighbours of a block, ascending.
  std::span<const int> operator[](int block) const {
    return {blocks_.data() + offsets_[block], blocks_.data() + offsets_[block + 1]};
  }

 private:
  std::vector<int> offsets_, blocks_;
};

}  // namespace tmol_plugin
