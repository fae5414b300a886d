// Energies of one block, and of its pairs with other blocks, as the terms add them.
#pragma once

#include <array>
#include <vector>

#include "energy/score_types.h"

namespace tmol_plugin {

// A pair belongs to one of its two blocks, the owner, whose total holds all of it. Where energies
// are wanted by block, its halves are kept apart until all blocks are done.
class BlockEnergies {
 public:
  explicit BlockEnergies(bool by_block) : by_block_(by_block) {}

  // Of the owner alone.
  void add(ScoreType type, double energy) {
    totals_[type] += energy;
    if (by_block_) sums_[type] += energy;
  }

  // Of the owner and another block.
  void add_pair(ScoreType type, int other, double energy) {
    totals_[type] += energy;
    if (!by_block_ || energy == 0) return;
    sums_[type] += energy / 2;
    halves_.push_back({other, type, energy / 2});
  }

  struct Half {
    int block;
    ScoreType type;
    double energy;
  };

  bool by_block() const { return by_block_; }
  double total(int type) const { return totals_[type]; }
  // The owner's share, and those of the other blocks.
  const std::array<double, kNScoreTypes>& sums() const { return sums_; }
  const std::vector<Half>& halves() const { return halves_; }
  void clear() {
    totals_.fill(0);
    sums_.fill(0);
    halves_.clear();
  }

 private:
  bool by_block_;
  std::array<double, kNScoreTypes> totals_{}, sums_{};
  std::vector<Half> halves_;
};

}  // namespace tmol_plugin
