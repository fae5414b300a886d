// Scores hydrogen bonds of a block and its later neighbours.
#pragma once

#include <vector>

#include "cpu/block_energies.h"
#include "cpu/polar_atoms.h"
#include "energy/hbond.h"

namespace tmol_plugin {

struct PoseWork;

class HydrogenBonds {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit. `polar` is
  // kept and read.
  HydrogenBonds(const Arrays& arrays, const PolarAtoms& polar);

  // A pose's donor hydrogens and acceptors, those of block b from offset[b] to [b + 1].
  struct Work {
    struct Donor {
      Vec3<float> hydrogen, heavy;
      int atom, counted, type;  // the hydrogen; the atom whose bonds count between blocks
    };
    struct Acceptor {
      HBondAcceptor<float> acceptor;
      int atom, counted, type;
    };
    std::vector<Donor> donors;
    std::vector<Acceptor> acceptors;
    std::vector<int> donor_offsets, acceptor_offsets;
  };
  Work prepare(const BlockTypes& types, const PoseView& pose) const;

  void score(const PoseWork& work, const BlockTypes& types, int block,
             BlockEnergies& energies) const;

 private:
  const PolarAtoms* polar_;
  HBondGlobals globals_;
  std::vector<HBondPair> pairs_;  // [n_donor_types, n_acceptor_types]
};

}  // namespace tmol_plugin
