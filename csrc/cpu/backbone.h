// Scores the backbone terms of a block.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/separations.h"

namespace tmol_plugin {

class BackboneTorsions {
 public:
  explicit BackboneTorsions(const Arrays&, const BlockTypes&) {}
  void score(const PoseView&, int, BlockEnergies&) const {}
};

}  // namespace tmol_plugin
