// Scores the pairs of atoms of a block and its later neighbours: Lennard-Jones, solvation with
// and without waters, electrostatics.
#pragma once

#include <vector>

#include "cpu/block_energies.h"
#include "cpu/kernels.h"
#include "cpu/pose_work.h"

namespace tmol_plugin {

class AtomPairs {
 public:
  // `polar` is kept and read.
  AtomPairs(const Arrays& arrays, const BlockTypes& types, const PolarAtoms& polar)
      : tables_(arrays, types), waters_(arrays, polar) {}

  const PairTables& tables() const { return tables_; }
  const WaterTables& waters() const { return waters_; }

  // What a thread needs to score blocks of one pose.
  class Scratch {
   private:
    friend AtomPairs;
    struct Near {
      std::vector<int32_t> atoms;
      std::vector<uint8_t> codes;
      PairKernelInput::NearAtoms view() const;
      void set_codes(const uint8_t* own, int n_rows, int width);
      int stride() const;
    };
    Near heavy_, hydrogens_;
    std::vector<int> far_blocks_;
    std::vector<float> floats_;
    std::vector<int32_t> integers_;
    std::vector<PairKernelScratch::AtomHits> hits_of_atom_;
    std::vector<double> by_block_;
  };

  void score(const PoseWork& work, const BlockTypes& types, const Kernels& kernels, int block,
             Scratch& scratch, BlockEnergies& energies) const;

 private:
  void set_near(const PoseWork& work, const BlockTypes& types, int block, Scratch& scratch) const;
  PairTables tables_;
  WaterTables waters_;
};

}  // namespace tmol_plugin
