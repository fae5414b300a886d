// Shares out poses and blocks to threads, and adds energies up in the blocks' order.
#include "cpu/score.h"

#include <algorithm>
#include <stdexcept>

namespace tmol_plugin {
namespace {

std::vector<float> reference_energies(const Arrays& arrays, const BlockTypes& types) {
  const std::span<const float> values = arrays.get<float>("ref.weight");
  if (values.size() != size_t(types.n_types())) {
    throw std::invalid_argument("array 'ref.weight' does not fit the block types");
  }
  return {values.begin(), values.end()};
}

}  // namespace

Scorer::Scorer(const Arrays& arrays)
    : types_(arrays),
      atom_pairs_(arrays, types_),
      hydrogen_bonds_(arrays, types_),
      lk_ball_(arrays, types_),
      cart_(arrays, types_),
      disulfides_(arrays, types_),
      backbone_(arrays, types_),
      dunbrack_(arrays, types_),
      reference_(reference_energies(arrays, types_)) {}

void Scorer::score(const tp_pose_stack& stack, int n_threads, double* energies,
                   double* block_energies) const {
  const int64_t n_poses = stack.n_poses;
  for (int64_t p = 0; p < n_poses; ++p) {
    const int first = stack.pose_block_offsets[p];
    const PoseView pose = {stack.pose_block_offsets[p + 1] - first,
                           stack.coords,
                           stack.block_types + first,
                           stack.block_atom_offsets + first,
                           stack.block_connection_offsets + first,
                           stack.connections};
    score_pose(pose, n_threads, energies + p, n_poses,
               block_energies ? block_energies + first : nullptr,
               stack.pose_block_offsets[n_poses]);
  }
}

void Scorer::score_pose(const PoseView& pose, int, double* energies, int64_t stride,
                        double* block_energies, int64_t block_stride) const {
  const PoseWork work = {&pose, PoseAtoms(atom_pairs_.tables(), pose), find_neighbors(pose, kReach),
                         NearBlocks(types_, pose)};
  AtomPairs::Scratch scratch;
  std::array<double, kNScoreTypes> totals{};
  BlockEnergies block(block_energies != nullptr);
  for (int b = 0; b < pose.n_blocks; ++b) {
    block.clear();
    atom_pairs_.score(work, types_, score_pairs_avx2, b, scratch, block);
    hydrogen_bonds_.score(work, b, block);
    lk_ball_.score(work, b, block);
    cart_.score(pose, b, block);
    disulfides_.score(pose, b, block);
    backbone_.score(pose, b, block);
    dunbrack_.score(pose, b, block);
    block.add(kRef, reference_[pose.block_types[b]]);
    for (int t = 0; t < kNScoreTypes; ++t) totals[t] += block.sums()[t];
  }
  for (int t = 0; t < kNScoreTypes; ++t) energies[t * stride] = totals[t];
  (void)block_stride;
}

}  // namespace tmol_plugin
