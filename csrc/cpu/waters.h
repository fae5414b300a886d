// Waters of a pose's polar atoms.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cpu/pair_tables.h"
#include "cpu/polar_atoms.h"
#include "energy/lk_ball.h"
#include "energy/waters.h"

namespace tmol_plugin {

struct PoseAtoms;

class WaterTables {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  WaterTables(const Arrays& arrays, const PolarAtoms& polar);

  const PolarAtoms& polar() const { return *polar_; }
  float dist() const { return dist_; }
  // Of an acceptor, by its hybridization.
  std::span<const WaterPlace<float>> places(int hybridization) const {
    return places_[hybridization];
  }

 private:
  const PolarAtoms* polar_;
  float dist_;
  std::vector<WaterPlace<float>> places_[4];
};

// Rows by atom in PoseAtoms' order; those of atoms without slots for waters are not set.
class Waters {
 public:
  // Sets `has_waters` of the atoms' rows.
  Waters(const WaterTables& tables, const PairTables& pairs, const BlockTypes& types,
         const PoseView& pose, PoseAtoms& atoms);

  // [n_atoms, kMaxWaters, 4]; the fourth is not used.
  const float* rows() const { return rows_.get(); }

 private:
  std::unique_ptr<float[]> rows_;
};

}  // namespace tmol_plugin
