// Finds neighbouring blocks by the spheres about their atoms.
#include "cpu/neighbors.h"

#include <algorithm>
#include <cmath>

namespace tmol_plugin {

Neighbors find_neighbors(const PoseView& pose, float reach) {
  const int n = pose.n_blocks;
  std::vector<Vec3<float>> centers(n);
  std::vector<float> radii(n);
  for (int b = 0; b < n; ++b) {
    Vec3<float> sum = {0, 0, 0};
    for (int i = pose.atom_offsets[b]; i < pose.atom_offsets[b + 1]; ++i) {
      sum = sum + pose.position(i);
    }
    centers[b] = (1 / float(std::max(1, pose.n_atoms(b)))) * sum;
    for (int i = pose.atom_offsets[b]; i < pose.atom_offsets[b + 1]; ++i) {
      radii[b] = std::max(radii[b], norm(pose.position(i) - centers[b]));
    }
  }
  Neighbors found;
  found.offsets.push_back(0);
  for (int b = 0; b < n; ++b) {
    for (int other = b + 1; other < n; ++other) {
      // A thousandth of an angstrom more than what rounding can take away.
      if (norm(centers[other] - centers[b]) < radii[b] + radii[other] + reach + 1e-3f) {
        found.blocks.push_back(other);
      }
    }
    found.offsets.push_back(int(found.blocks.size()));
  }
  return found;
}

}  // namespace tmol_plugin
