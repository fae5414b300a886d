// Finds neighbouring blocks in a grid of cells.
#include "cpu/neighbors.h"

#include <algorithm>
#include <array>

#include "cpu/kernels.h"

namespace tmol_plugin {
namespace {

// In double precision no coordinate overflows.
using Triple = std::array<double, 3>;

Triple center(const Box& box) {
  const auto middle = [](double low, double high) { return (low + high) / 2; };
  return {middle(box.low.x, box.high.x), middle(box.low.y, box.high.y),
          middle(box.low.z, box.high.z)};
}

// Cells at least as wide as two neighbours' centres may be apart: neighbours are in one cell, or
// in cells that touch.
class Grid {
 public:
  Grid(std::span<const Box> boxes, float reach) {
    Triple high;
    low_ = high = center(boxes[0]);
    const auto extent = [](double from, double to) { return to - from; };
    for (const Box& box : boxes) {
      const Triple at = center(box);
      for (int axis = 0; axis < 3; ++axis) {
        low_[axis] = std::min(low_[axis], at[axis]);
        high[axis] = std::max(high[axis], at[axis]);
      }
      width_ = std::max<double>({width_, extent(box.low.x, box.high.x),
                                 extent(box.low.y, box.high.y), extent(box.low.z, box.high.z)});
    }
    width_ += reach;
    // Blocks far from all others do not make more cells than there are blocks.
    const auto n_cells = [&] {
      double n = 1;
      for (int axis = 0; axis < 3; ++axis) {
        n *= n_[axis] = int(std::min(1e6, (high[axis] - low_[axis]) / width_)) + 1;
      }
      return n;
    };
    while (n_cells() > 8.0 + double(boxes.size())) width_ *= 1.5;
    offsets_.assign(size_t(n_[0]) * n_[1] * n_[2] + 1, 0);
    std::vector<int> cells;
    for (const Box& box : boxes) {
      cells.push_back(cell(place(box)));
      ++offsets_[cells.back() + 1];
    }
    for (size_t i = 1; i < offsets_.size(); ++i) offsets_[i] += offsets_[i - 1];
    std::vector<int> next(offsets_.begin(), offsets_.end() - 1);
    members_.resize(boxes.size() + kPadding);
    for (auto& values : bounds_) values.resize(boxes.size() + kPadding);
    for (size_t b = 0; b < boxes.size(); ++b) {
      const int at = next[cells[b]]++;
      const Box& box = boxes[b];
      members_[at] = int(b);
      const float bounds[] = {box.low.x, box.low.y, box.low.z, box.high.x, box.high.y, box.high.z};
      for (int i = 0; i < 6; ++i) bounds_[i][at] = bounds[i];
    }
  }

  // All blocks, cell after cell.
  BoxArrays boxes() const {
    return {bounds_[0].data(), bounds_[1].data(), bounds_[2].data(), bounds_[3].data(),
            bounds_[4].data(), bounds_[5].data(), members_.data()};
  }

  // Calls `visit` with ranges of boxes(): those in the cell of `box` and the cells about it.
  template <class Visit>
  void visit_near(const Box& box, Visit visit) const {
    const std::array<int, 3> at = place(box);
    const int first = std::max(0, at[2] - 1), last = std::min(n_[2] - 1, at[2] + 1);
    for (int x = std::max(0, at[0] - 1); x <= std::min(n_[0] - 1, at[0] + 1); ++x) {
      for (int y = std::max(0, at[1] - 1); y <= std::min(n_[1] - 1, at[1] + 1); ++y) {
        visit(offsets_[cell({x, y, first})], offsets_[cell({x, y, last}) + 1]);
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
  double width_ = 0;
  std::array<int, 3> n_;
  std::vector<int> offsets_;
  std::vector<int32_t> members_;
  std::array<std::vector<float>, 6> bounds_;
};

}  // namespace

Neighbors::Neighbors(std::span<const Box> boxes, float reach, const Kernels& kernels)
    : offsets_{0} {
  if (boxes.empty()) return;
  // A thousandth of an angstrom more than what rounding can take away near a protein.
  reach += 1e-3f;
  const Grid grid(boxes, reach);
  std::vector<int32_t> found(boxes.size() + kPadding);
  for (size_t b = 0; b < boxes.size(); ++b) {
    int n_found = 0;
    grid.visit_near(boxes[b], [&](int begin, int end) {
      n_found += kernels.near_boxes(grid.boxes(), begin, end, boxes[b], reach * reach, int(b),
                                    found.data() + n_found);
    });
    std::sort(found.begin(), found.begin() + n_found);
    blocks_.insert(blocks_.end(), found.begin(), found.begin() + n_found);
    offsets_.push_back(int(blocks_.size()));
  }
}

}  // namespace tmol_plugin
