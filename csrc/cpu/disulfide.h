// Scores the disulfide bonds of a block.
#pragma once

#include <vector>

#include "cpu/block_energies.h"
#include "cpu/separations.h"
#include "energy/disulfide.h"

namespace tmol_plugin {

class Disulfides {
 public:
  // Throws std::invalid_argument naming an array that does not fit the block types.
  Disulfides(const Arrays& arrays, const BlockTypes& types);

  // To a block that does not come before `block`.
  void score(const PoseView& pose, int block, BlockEnergies& energies) const;

  const DisulfideView& view() const { return view_; }

 private:
  BlockTypesView types_;
  std::vector<int32_t> connection_;
  std::vector<uint8_t> is_mirrored_;
  DisulfideView view_;
};

}  // namespace tmol_plugin
