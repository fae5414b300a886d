// Lays out what the pair kernel reads: near atoms with their codes, far blocks, and room.
#include "cpu/atom_pairs.h"

#include <algorithm>
#include <utility>

namespace tmol_plugin {

// Vectors of up to 16 codes are loaded from each row.
int AtomPairs::Scratch::Near::stride() const { return (int(atoms.size()) + 15) / 16 * 16; }

// Rows that start with the first `width` columns of [n_rows, n_rows] `own`, and go on with full
// weights.
void AtomPairs::Scratch::Near::set_codes(const uint8_t* own, int n_rows, int width) {
  const int n_columns = stride();
  codes.assign(size_t(n_rows) * n_columns, kFullWeight);
  for (int a = 0; a < n_rows; ++a) {
    std::copy_n(own + a * n_rows, width, codes.data() + a * n_columns);
  }
}

PairKernelInput::NearAtoms AtomPairs::Scratch::Near::view() const {
  return {atoms.data(), int32_t(atoms.size()), stride(), codes.data()};
}

void AtomPairs::set_near(const PoseWork& work, const BlockTypes& types, int block,
                         Scratch& scratch) const {
  const PoseView& pose = *work.pose;
  const auto put = [&](int of) {
    const int begin = work.atoms.begin[of], middle = work.atoms.heavy_end[of];
    for (int i = begin; i < middle; ++i) scratch.heavy_.atoms.push_back(i);
    for (int i = middle; i < work.atoms.begin[of + 1]; ++i) scratch.hydrogens_.atoms.push_back(i);
  };
  scratch.heavy_.atoms.clear();
  scratch.hydrogens_.atoms.clear();
  put(block);
  for (const NearBlock& near : work.near[block]) {
    if (near.block > block) put(near.block);
  }
  const int type = pose.block_types[block], n = types.n_atoms(type);
  const int n_heavy = tables_.n_heavy[type];
  const uint8_t* const own = tables_.codes.data() + tables_.code_offset[type];
  scratch.heavy_.set_codes(own, n, n_heavy);
  scratch.hydrogens_.set_codes(own + n_heavy, n, n - n_heavy);

  const int heavy_stride = scratch.heavy_.stride(), hydrogen_stride = scratch.hydrogens_.stride();
  int heavy_before = n_heavy, hydrogens_before = n - n_heavy;
  for (const NearBlock& near : work.near[block]) {
    if (near.block < block) continue;
    const int other = pose.block_types[near.block], other_heavy = tables_.n_heavy[other];
    for (const ConnectionPath& path : near.paths) {
      const int row = types.connection_begin(type) + path.connection;
      const int other_row = types.connection_begin(other) + path.other_connection;
      const auto lower = [&](const auto& atoms, int shift) {
        for (const auto& a : atoms[row]) {
          if (a.n_bonds + path.n_bonds >= kFarBonds) break;
          for (const auto& b : atoms[other_row]) {
            const int n_bonds = a.n_bonds + path.n_bonds + b.n_bonds;
            if (n_bonds >= kFarBonds) break;
            uint8_t& code =
                b.place < other_heavy
                    ? scratch.heavy_.codes[a.place * heavy_stride + heavy_before + b.place]
                    : scratch.hydrogens_.codes[a.place * hydrogen_stride + hydrogens_before +
                                               b.place - other_heavy];
            const int before = code >> shift & 3, now = std::max<int>(before, bond_code(n_bonds));
            code = uint8_t(code + ((now - before) << shift));
          }
        }
      };
      lower(tables_.lj_near, 0);
      lower(tables_.elec_near, kElecCodeShift);
    }
    heavy_before += other_heavy;
    hydrogens_before += types.n_atoms(other) - other_heavy;
  }
}

void AtomPairs::score(const PoseWork& work, const BlockTypes& types, const Kernels& kernels,
                      int block, Scratch& scratch, BlockEnergies& energies) const {
  set_near(work, types, block, scratch);
  const PoseAtoms& atoms = work.atoms;
  size_t n_candidates = scratch.heavy_.atoms.size() + scratch.hydrogens_.atoms.size();
  scratch.far_blocks_.clear();
  const auto near = work.near[block];
  for (int other : work.neighbors[block]) {
    const auto is_other = [&](const NearBlock& one) { return one.block == other; };
    if (std::any_of(near.begin(), near.end(), is_other)) continue;
    scratch.far_blocks_.push_back(other);
    n_candidates += size_t(atoms.begin[other + 1] - atoms.begin[other]);
  }
  const int n_own = atoms.begin[block + 1] - atoms.begin[block];
  const size_t room = n_candidates + kPadding, hit_room = size_t(n_own) * room;
  const size_t n_floats = 6 * room + 9 * hit_room, n_integers = 2 * room + 6 * hit_room;
  if (scratch.floats_.size() < n_floats) scratch.floats_.resize(2 * n_floats);
  if (scratch.integers_.size() < n_integers) scratch.integers_.resize(2 * n_integers);
  if (scratch.hits_of_atom_.size() < size_t(n_own)) scratch.hits_of_atom_.resize(n_own);
  float* floats = scratch.floats_.data();
  int32_t* integers = scratch.integers_.data();
  const auto next_floats = [&] { return std::exchange(floats, floats + room); };
  const auto next_integers = [&] { return std::exchange(integers, integers + room); };
  PairKernelScratch buffers;
  for (auto* candidates : {&buffers.heavy, &buffers.hydrogens}) {
    *candidates = {next_floats(), next_floats(), next_floats(), next_integers()};
  }
  buffers.hits_of_atom = scratch.hits_of_atom_.data();
  auto& own = buffers.own_waters;
  auto& other = buffers.other_waters;
  auto& bridges = buffers.bridges;
  for (int32_t** array :
       {&buffers.hits, &own.atom, &other.atom, &other.self, &bridges.atom, &bridges.self}) {
    *array = std::exchange(integers, integers + hit_room);
  }
  for (float** array : {&buffers.hit_dist_sq, &own.lk, &own.excess[0], &own.excess[1],
                        &own.excess[2], &own.excess[3], &other.lk, &bridges.lk, &bridges.angle}) {
    *array = std::exchange(floats, floats + hit_room);
  }
  const PairKernelInput input = {atoms.x.data(),
                                 atoms.y.data(),
                                 atoms.z.data(),
                                 atoms.rows.data(),
                                 work.waters.rows(),
                                 waters_.dist(),
                                 atoms.block.data(),
                                 atoms.begin.data(),
                                 atoms.heavy_end.data(),
                                 atoms.boxes.data(),
                                 tables_.lj,
                                 tables_.elec,
                                 tables_.n_atom_types,
                                 tables_.sigma.data(),
                                 tables_.is_polar.data(),
                                 tables_.lk_types.data(),
                                 tables_.lk_pairs.data(),
                                 block,
                                 scratch.far_blocks_.data(),
                                 int32_t(scratch.far_blocks_.size()),
                                 scratch.heavy_.view(),
                                 scratch.hydrogens_.view()};
  constexpr ScoreType kTypes[kNPairTerms] = {kFaLJAtr,   kFaLJRep, kFaElec,   kFaLK,
                                             kLKBallIso, kLKBall,  kLKBridge, kLKBridgeUncpl};
  double sums[kNPairTerms] = {};
  if (!energies.by_block()) {
    kernels.score_pairs(input, buffers, sums, nullptr);
    for (int term = 0; term < kNPairTerms; ++term) energies.add(kTypes[term], sums[term]);
    return;
  }
  auto& by_block = scratch.by_block_;
  by_block.assign(size_t(kNPairTerms) * work.pose->n_blocks, 0);
  kernels.score_pairs(input, buffers, sums, by_block.data());
  const auto add = [&](int other) {
    for (int term = 0; term < kNPairTerms; ++term) {
      energies.add_pair(kTypes[term], other, by_block[kNPairTerms * other + term]);
    }
  };
  for (int term = 0; term < kNPairTerms; ++term) {
    energies.add(kTypes[term], by_block[kNPairTerms * block + term]);
  }
  for (const NearBlock& one : near) {
    if (one.block > block) add(one.block);
  }
  for (int other : scratch.far_blocks_) add(other);
}

}  // namespace tmol_plugin
