// Finds neighbouring blocks in a grid of cells.
#include "cpu/neighbors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tmol_plugin {
namespace {

using Triple = std::array<float, 3>;

Triple center(const Box& box) {
  return {(box.low.x + box.high.x) / 2, (box.low.y + box.high.y) / 2, (box.low.z + box.high.z) / 2};
}

float gap_sq(const Box& a, const Box& b) {
  const auto gap = [](float a_low, float a_high, float b_low, float b_high) {
    return std::max(0.0f, std::max(a_low - b_high, b_low - a_high));
  };
  const float x = gap(a.low.x, a.high.x, b.low.x, b.high.x);
  const float y = gap(a.low.y, a.high.y, b.low.y, b.high.y);
  const float z = gap(a.low.z, a.high.z, b.low.z, b.high.z);
  return x * x + y * y + z * z;
}

// Cells at least as wide as two neighbours' centres may be apart: neighbours are in one cell, or
// in cells that touch.
class Grid {
 public:
  Grid(std::span<const Box> boxes, float reach) {
    Triple high;
    low_ = high = center(boxes[0]);
    for (const Box& box : boxes) {
      const Triple at = center(box);
      for (int axis = 0; axis < 3; ++axis) {
        low_[axis] = std::min(low_[axis], at[axis]);
        high[axis] = std::max(high[axis], at[axis]);
      }
      width_ = std::max(
          {width_, box.high.x - box.low.x, box.high.y - box.low.y, box.high.z - box.low.z});
    }
    width_ += reach;
    // Blocks far from all others do not make more cells than there are blocks.
    const auto n_cells = [&] {
      double n = 1;
      for (int axis = 0; axis < 3; ++axis) {
        n *= n_[axis] = int(std::min(1e6f, (high[axis] - low_[axis]) / width_)) + 1;
      }
      return n;
    };
    while (n_cells() > 8.0 + double(boxes.size())) width_ *= 1.5f;
    offsets_.assign(size_t(n_[0]) * n_[1] * n_[2] + 1, 0);
    std::vector<int> cells;
    for (const Box& box : boxes) {
      cells.push_back(cell(place(box)));
      ++offsets_[cells.back() + 1];
    }
    for (size_t i = 1; i < offsets_.size(); ++i) offsets_[i] += offsets_[i - 1];
    std::vector<int> next(offsets_.begin(), offsets_.end() - 1);
    members_.resize(boxes.size());
    for (size_t b = 0; b < boxes.size(); ++b) members_[next[cells[b]]++] = int(b);
  }

  // Calls `visit` with each block in the cell of `box` and the cells about it.
  template <class Visit>
  void visit_near(const Box& box, Visit visit) const {
    const std::array<int, 3> at = place(box);
    for (int x = std::max(0, at[0] - 1); x <= std::min(n_[0] - 1, at[0] + 1); ++x) {
      for (int y = std::max(0, at[1] - 1); y <= std::min(n_[1] - 1, at[1] + 1); ++y) {
        for (int z = std::max(0, at[2] - 1); z <= std::min(n_[2] - 1, at[2] + 1); ++z) {
          const int here = cell({x, y, z});
          for (int i = offsets_[here]; i < offsets_[here + 1]; ++i) visit(members_[i]);
        }
      }
    }
  }

 private:
  std::array<int, 3> place(const Box& box) const {
    const Triple at = center(box);
    std::array<int, 3> found;
    for (int axis = 0; axis < 3; ++axis) {
      found[axis] = std::clamp(int((at[axis] - low_[axis]) / width_), 0, n_[axis] - 1);
    }
    return found;
  }
  int cell(std::array<int, 3> at) const { return (at[0] * n_[1] + at[1]) * n_[2] + at[2]; }

  Triple low_;
  float width_ = 0;
  std::array<int, 3> n_;
  std::vector<int> offsets_, members_;
};

}  // namespace

Neighbors::Neighbors(std::span<const Box> boxes, float reach) : offsets_{0} {
  if (boxes.empty()) return;
  // A thousandth of an angstrom more than what rounding can take away near a protein.
  const float reach_sq = (reach + 1e-3f) * (reach + 1e-3f);
  const Grid grid(boxes, reach + 1e-3f);
  for (size_t b = 0; b < boxes.size(); ++b) {
    const size_t first = blocks_.size();
    grid.visit_near(boxes[b], [&](int other) {
      if (other > int(b) && gap_sq(boxes[b], boxes[other]) < reach_sq) blocks_.push_back(other);
    });
    std::sort(blocks_.begin() + first, blocks_.end());
    offsets_.push_back(int(blocks_.size()));
  }
}

}  // namespace tmol_plugin
