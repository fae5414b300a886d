// What is compiled once for each instruction set: the terms of atom pairs, and finding pairs.
#pragma once

#include <cstdint>

#include "energy/elec.h"
#include "energy/lk.h"
#include "energy/lk_ball.h"

namespace tmol_plugin {

// Room after the last item of an array, so that vectors may be loaded from any.
inline constexpr int kPadding = 16;

struct AtomRow;
struct Box;

// How the bonds between two atoms weigh their energies: in the low two bits for Lennard-Jones and
// solvation, in the next two for electrostatics. Larger is less.
enum BondCode : uint8_t { kFullWeight, kFifthWeight, kNoWeight };
inline constexpr float kBondWeights[8] = {1.0f, 0.2f, 0.0f};
inline constexpr int kElecCodeShift = 2;
inline constexpr uint8_t kNoCode = kNoWeight | kNoWeight << kElecCodeShift;

inline BondCode bond_code(int n_bonds) {
  return n_bonds < 4 ? kNoWeight : n_bonds == 4 ? kFifthWeight : kFullWeight;
}

// A pose has fewer atoms than 1 << kCodeShift.
inline constexpr int kCodeShift = 27;

// Raw arrays: what is compiled for a newer processor must not share code with the rest, so it
// instantiates nothing of the standard library's containers.
struct PairKernelInput {
  // The pose's atoms; see PoseAtoms.
  const float *x, *y, *z;
  const AtomRow* rows;
  const float* waters;  // [n_atoms, kMaxWaters, 4]; see Waters
  float water_dist;
  const int32_t *block_of, *begin, *heavy_end;
  const Box* boxes;
  // The tables; see PairTables.
  LJGlobals lj;
  ElecGlobals elec;
  int32_t n_atom_types;
  const float* sigma;
  const uint8_t* is_polar;
  const LKType* lk_types;
  const LKPair* lk_pairs;
  // The block, its later neighbours that are no near blocks, and the atoms of those that are
  // and of itself, heavy atoms and hydrogens apart. Codes are by atom of the block and near
  // atom: [n, stride], 0 beyond the atoms, the stride a multiple of 16.
  int32_t block;
  const int32_t* far_blocks;
  int32_t n_far_blocks;
  struct NearAtoms {
    const int32_t* atoms;
    int32_t n_atoms, stride;
    const uint8_t* codes;
  } near_heavy, near_hydrogens;
};

// Room for as many atoms as all neighbours and near blocks have together, and kPadding more.
struct PairKernelScratch {
  struct Candidates {
    float *x, *y, *z;
    int32_t* atom;
  } heavy, hydrogens;
  // The pairs of each atom of the block: heavy atoms, then hydrogens. Room for as many atoms
  // for each atom of the block.
  struct AtomHits {
    int32_t begin, heavy_end, end;
  };
  AtomHits* hits_of_atom;
  int32_t* hits;  // the atom, and the pair's code kCodeShift bits up
  float* hit_dist_sq;
  // Pairs of the block's heavy atoms for lk_ball, as many: by whose waters are looked at.
  struct {
    int32_t* atom;
    float *lk, *excess[kMaxWaters];
  } own_waters;
  struct {
    int32_t *atom, *self;
    float* lk;
  } other_waters;
  struct {
    int32_t *atom, *self;
    float *lk, *angle;
  } bridges;
};

enum {
  kPairLJAtr,
  kPairLJRep,
  kPairElec,
  kPairLK,
  kPairLKBallIso,
  kPairLKBall,
  kPairLKBridge,
  kPairLKBridgeUncpl,
  kNPairTerms
};

// Boxes as structure of arrays, padded, and the blocks that they are of.
struct BoxArrays {
  const float *low_x, *low_y, *low_z, *high_x, *high_y, *high_z;
  const int32_t* blocks;
};

struct Kernels {
  // Adds the energies of all pairs to `sums`; where `by_block` is not null, those with atoms of
  // block b to by_block[kNPairTerms * b] and on.
  void (*score_pairs)(const PairKernelInput&, const PairKernelScratch&, double sums[kNPairTerms],
                      double* by_block);

  // Writes to `found` the blocks after `after`, of boxes `begin` to `end`, whose box is less
  // than sqrt(reach_sq) from `box`; up to kPadding places more are overwritten. Returns how
  // many there are.
  int (*near_boxes)(const BoxArrays& boxes, int begin, int end, const Box& box, float reach_sq,
                    int after, int32_t* found);
};

extern const Kernels kBaselineKernels, kAvx2Kernels;

}  // namespace tmol_plugin
