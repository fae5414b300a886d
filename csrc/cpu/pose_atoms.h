// The atoms of a pose as structure of arrays, each block's heavy atoms first.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/neighbors.h"
#include "cpu/pair_tables.h"
#include "energy/pose_view.h"

namespace tmol_plugin {

struct PoseAtoms {
  PoseAtoms(const PairTables& tables, const PoseView& pose);

  // By atom, padded. Positions are in the rows too.
  std::vector<float> x, y, z;
  std::vector<AtomRow> rows;
  std::vector<int32_t> block;
  // Block b has heavy atoms begin[b] to heavy_end[b], then hydrogens to begin[b + 1].
  std::vector<int32_t> begin, heavy_end;
  std::vector<Box> boxes;
};

}  // namespace tmol_plugin
