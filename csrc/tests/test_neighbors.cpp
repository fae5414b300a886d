// Neighbouring blocks against all pairs of boxes, on each instruction set that can be run.
#include <doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/neighbors.h"
#include "cpu/score.h"

using namespace tmol_plugin;

namespace {

float gap(float low, float high, float other_low, float other_high) {
  return std::max({0.0f, low - other_high, other_low - high});
}

bool are_near(const Box& a, const Box& b, float reach) {
  const float x = gap(a.low.x, a.high.x, b.low.x, b.high.x);
  const float y = gap(a.low.y, a.high.y, b.low.y, b.high.y);
  const float z = gap(a.low.z, a.high.z, b.low.z, b.high.z);
  return x * x + y * y + z * z < reach * reach;
}

void check(const std::vector<Box>& boxes) {
  for (const char* name : instruction_sets()) {
    CAPTURE(name);
    const Neighbors found(boxes, 6, kernels_of(name));
    for (int b = 0; b < int(boxes.size()); ++b) {
      std::vector<int> near, expected;
      near.assign(found[b].begin(), found[b].end());
      // Those that only the margin for rounding lets in may be there or not.
      for (int other = b + 1; other < int(boxes.size()); ++other) {
        if (are_near(boxes[b], boxes[other], 6.0011f) &&
            (are_near(boxes[b], boxes[other], 6) || std::count(near.begin(), near.end(), other))) {
          expected.push_back(other);
        }
      }
      CHECK(near == expected);
    }
  }
}

std::vector<Box> random_boxes(int n, float spread, unsigned seed) {
  std::mt19937 generator(seed);
  const auto uniform = [&](float high) {
    return high * float(generator()) / float(generator.max());
  };
  std::vector<Box> boxes;
  for (int i = 0; i < n; ++i) {
    const Vec3<float> low = {uniform(spread), uniform(spread), uniform(spread)};
    const Vec3<float> size = {uniform(7), uniform(7), uniform(7)};
    boxes.push_back({low, low + size});
  }
  return boxes;
}

}  // namespace

TEST_CASE("neighbours are those of all pairs whose boxes are near, in order") {
  check({});
  check(random_boxes(1, 10, 1));
  for (unsigned seed = 1; seed < 6; ++seed) {
    check(random_boxes(300, 40, seed));   // as dense as a protein
    check(random_boxes(300, 300, seed));  // far apart
    check(random_boxes(50, 1, seed));     // all on one spot
  }
}

TEST_CASE("a block far from all others, and one as large as all, cost no neighbour") {
  std::vector<Box> boxes = random_boxes(200, 40, 7);
  boxes.push_back({{1e6f, 1e6f, 1e6f}, {1e6f + 5, 1e6f + 5, 1e6f + 5}});
  boxes.push_back({{-10, -10, -10}, {60, 60, 60}});
  check(boxes);
  boxes.push_back({{-3e38f, 3e38f, -3e38f}, {-3e38f, 3e38f, -3e38f}});
  check(boxes);
  std::vector<Box> line;
  for (int i = 0; i < 200; ++i) line.push_back({{3.8f * i, 0, 0}, {3.8f * i + 5, 4, 4}});
  check(line);
}
