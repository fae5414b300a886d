// Which blocks of a pose are close enough for their atoms to interact.
#pragma once

#include <vector>

#include "energy/pose_view.h"

namespace tmol_plugin {

struct Neighbors {
  std::vector<int> offsets;  // [n_blocks + 1]
  std::vector<int> blocks;   // of each block the later ones, ascending
};

// Pairs of blocks whose atoms may lie within `reach` angstrom of each other: their spheres do.
Neighbors find_neighbors(const PoseView& pose, float reach);

}  // namespace tmol_plugin
