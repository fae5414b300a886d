// Waters of a pose's polar atoms.
#pragma once

#include <memory>
#include <vector>

#include "cpu/pair_tables.h"
#include "energy/lk_ball.h"
#include "energy/waters.h"

namespace tmol_plugin {

struct PoseAtoms;

class WaterTables {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  WaterTables(const Arrays& arrays, const BlockTypes& types, const PairTables& pairs);

  float water_dist() const { return water_dist_; }

 private:
  friend class Waters;
  struct Donor {
    int heavy, hydrogen;  // atoms within the block type
    int place, slot;      // of the heavy atom in PoseAtoms' order; which of its waters
  };
  struct Acceptor {
    int atom;
    AtomId base, second_base;
    bool is_ring;  // waters are built from the middle of both bases
    int place, slot, n_waters;
    int hybridization;
  };
  float water_dist_;
  std::vector<Donor> donors_;
  std::vector<Acceptor> acceptors_;
  std::vector<int> donor_offset_, acceptor_offset_;  // by block type
  std::vector<WaterPlace<float>> places_[4];         // by hybridization
};

// Rows by atom in PoseAtoms' order; those of atoms without slots for waters are not set.
class Waters {
 public:
  // Sets `has_waters` of the atoms' rows.
  Waters(const WaterTables& tables, const BlockTypes& types, const PoseView& pose,
         PoseAtoms& atoms);

  // [n_atoms, kMaxWaters, 4]; the fourth is not used.
  const float* rows() const { return rows_.get(); }

 private:
  std::unique_ptr<float[]> rows_;
};

}  // namespace tmol_plugin
