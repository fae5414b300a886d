// Which blocks of a pose are close enough for their atoms to interact.
#pragma once

#include <span>
#include <vector>

#include "energy/vec3.h"

namespace tmol_plugin {

// The smallest box, along the axes, that holds a block's atoms.
struct Box {
  Vec3<float> low, high;
};

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
