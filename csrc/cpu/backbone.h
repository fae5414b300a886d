// Scores the backbone terms of a block.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/separations.h"
#include "energy/backbone.h"

namespace tmol_plugin {

class BackboneTorsions {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  BackboneTorsions(const Arrays& arrays, const BlockTypes& types);

  // The energies of `block` with the block after it.
  void score(const PoseView& pose, int block, BlockEnergies& energies) const;

 private:
  BlockTypesView types_;
  std::vector<int32_t> up_connection_;
  std::vector<uint8_t> is_proline_;
  std::vector<BackboneTables> tables_;
  std::vector<AtomId> torsions_;
  std::vector<float> rama_, rama_start_, omega_, omega_start_;
  BackboneView view_;
};

}  // namespace tmol_plugin
