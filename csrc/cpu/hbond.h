// Scores the hbond terms of a block and its later neighbours.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/pose_work.h"

namespace tmol_plugin {

class HydrogenBonds {
 public:
  explicit HydrogenBonds(const Arrays&, const BlockTypes&) {}
  void score(const PoseWork&, int, BlockEnergies&) const {}
};

}  // namespace tmol_plugin
