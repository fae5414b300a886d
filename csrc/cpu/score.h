// Scores stacks of poses on threads, the same bits however the work is shared out.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cpu/atom_pairs.h"
#include "cpu/backbone.h"
#include "cpu/cart.h"
#include "cpu/disulfide.h"
#include "cpu/dunbrack.h"
#include "cpu/hbond.h"
#include "tmol_plugin.h"

namespace tmol_plugin {

// What the library is built for and this processor runs, the best one first.
std::span<const char* const> instruction_sets();

// Throws std::invalid_argument unless `instruction_set` is one of instruction_sets().
const Kernels& kernels_of(std::string_view instruction_set);

class Scorer {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit, or an
  // instruction set that is none of instruction_sets().
  Scorer(const Arrays& arrays, std::string_view instruction_set);

  // See tp_score.
  void score(const tp_pose_stack& stack, int n_threads, double* energies,
             double* block_energies) const;

 private:
  struct Result;
  void score_block(const PoseWork& work, int block, AtomPairs::Scratch& scratch,
                   BlockEnergies& energies) const;
  void score_pose(const PoseView& pose, int n_threads, AtomPairs::Scratch& scratch,
                  Result result) const;

  const Kernels& kernels_;
  BlockTypes types_;
  PolarAtoms polar_;
  AtomPairs atom_pairs_;
  HydrogenBonds hydrogen_bonds_;
  Cart cart_;
  Disulfides disulfides_;
  BackboneTorsions backbone_;
  Dunbrack dunbrack_;
  std::vector<float> reference_;  // by block type
};

}  // namespace tmol_plugin
