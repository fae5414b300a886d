// Scores the lk_ball terms of a block and its later neighbours.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/pose_work.h"

namespace tmol_plugin {

class LKBall {
 public:
  explicit LKBall(const Arrays&, const BlockTypes&) {}
  void score(const PoseWork&, int, BlockEnergies&) const {}
};

}  // namespace tmol_plugin
