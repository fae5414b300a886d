// Scores the lj_lk_elec terms of a block and its later neighbours.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/pose_work.h"

namespace tmol_plugin {

class AtomPairs {
 public:
  explicit AtomPairs(const Arrays&, const BlockTypes&) {}
  void score(const PoseWork&, int, BlockEnergies&) const {}
};

}  // namespace tmol_plugin
