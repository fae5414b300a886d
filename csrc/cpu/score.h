// Scores stacks of poses on threads, the same bits however the work is shared out.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/atom_pairs.h"
#include "cpu/backbone.h"
#include "cpu/cart.h"
#include "cpu/disulfide.h"
#include "cpu/dunbrack.h"
#include "cpu/hbond.h"
#include "cpu/lk_ball.h"
#include "tmol_plugin.h"

namespace tmol_plugin {

class Scorer {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  explicit Scorer(const Arrays& arrays);

  // See tp_score.
  void score(const tp_pose_stack& stack, int n_threads, double* energies,
             double* block_energies) const;

 private:
  void score_pose(const PoseView& pose, int n_threads, double* energies, int64_t stride,
                  double* block_energies, int64_t block_stride) const;

  BlockTypes types_;
  AtomPairs atom_pairs_;
  HydrogenBonds hydrogen_bonds_;
  LKBall lk_ball_;
  Cart cart_;
  Disulfides disulfides_;
  BackboneTorsions backbone_;
  Dunbrack dunbrack_;
  std::vector<float> reference_;  // by block type
};

}  // namespace tmol_plugin
