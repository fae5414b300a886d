// Scores the dunbrack terms of a block.
#pragma once

#include "cpu/block_energies.h"
#include "cpu/separations.h"
#include "energy/dunbrack.h"

namespace tmol_plugin {

class Dunbrack {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  Dunbrack(const Arrays& arrays, const BlockTypes& types);

  void score(const PoseView& pose, int block, BlockEnergies& energies) const;

 private:
  void load_library(const Arrays& arrays, int at);

  BlockTypesView types_;
  std::vector<int32_t> library_;
  std::vector<uint8_t> is_mirrored_;
  std::vector<AtomId> torsions_;
  std::vector<RotamerLibrary> libraries_;
  std::vector<int32_t> wells_;
  std::vector<float> tables_, semirotameric_;
  DunbrackView view_;
};

}  // namespace tmol_plugin
