// Sorts a pose's atoms and looks up what pairs of them are scored with.
#include "cpu/pose_atoms.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace tmol_plugin {

PoseAtoms::PoseAtoms(const PairTables& tables, const PoseView& pose) {
  const int first = pose.atom_offsets[0];
  const size_t n_atoms = size_t(pose.atom_offsets[pose.n_blocks] - first);
  if (n_atoms >= size_t{1} << kCodeShift) {
    throw std::invalid_argument("a pose of " + std::to_string(n_atoms) + " atoms; at most " +
                                std::to_string((1 << kCodeShift) - 1) + " can be scored");
  }
  for (auto* values : {&x, &y, &z}) values->resize(n_atoms + kPadding);
  rows.resize(n_atoms + kPadding);
  block.resize(n_atoms + kPadding);
  begin.resize(pose.n_blocks + 1);
  heavy_end.resize(pose.n_blocks);
  boxes.resize(pose.n_blocks);
  for (int b = 0; b < pose.n_blocks; ++b) {
    const int kind = pose.block_types[b], row = tables.first_atom[kind];
    begin[b] = pose.atom_offsets[b] - first;
    heavy_end[b] = begin[b] + tables.n_heavy[kind];
    constexpr float kFar = std::numeric_limits<float>::max();
    Box box = {{kFar, kFar, kFar}, {-kFar, -kFar, -kFar}};
    for (int i = 0; i < pose.n_atoms(b); ++i) {
      const int at = begin[b] + i;
      const Vec3<float> r = pose.position(pose.atom_offsets[b] + tables.order[row + i]);
      x[at] = r.x;
      y[at] = r.y;
      z[at] = r.z;
      rows[at] = tables.atoms[row + i];
      rows[at].x = r.x;
      rows[at].y = r.y;
      rows[at].z = r.z;
      block[at] = b;
      box.low = {std::min(box.low.x, r.x), std::min(box.low.y, r.y), std::min(box.low.z, r.z)};
      box.high = {std::max(box.high.x, r.x), std::max(box.high.y, r.y), std::max(box.high.z, r.z)};
    }
    boxes[b] = box;
  }
  begin[pose.n_blocks] = int32_t(n_atoms);
}

}  // namespace tmol_plugin
