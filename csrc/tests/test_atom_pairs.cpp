// Terms of atom pairs against their formulas, written out case by case.
#include <doctest.h>

#include <cmath>
#include <vector>

#include "cpu/simd.h"
#include "energy/elec.h"
#include "energy/lj.h"
#include "energy/lk.h"

using namespace tmol_plugin;

namespace {

// Cubic from (x0, p0, slope d0) to (x1, p1, slope d1), in Hermite's basis.
double hermite(double x, double x0, double p0, double d0, double x1, double p1, double d1) {
  const double h = x1 - x0, t = (x - x0) / h;
  return (1 + 2 * t) * (1 - t) * (1 - t) * p0 + t * (1 - t) * (1 - t) * h * d0 +
         t * t * (3 - 2 * t) * p1 + t * t * (t - 1) * h * d1;
}

double vdw(double r, double sigma, double epsilon) {
  return epsilon * (std::pow(sigma / r, 12) - 2 * std::pow(sigma / r, 6));
}

double vdw_slope(double r, double sigma, double epsilon) {
  return 12 * epsilon / r * (std::pow(sigma / r, 6) - std::pow(sigma / r, 12));
}

double lj(double r, double sigma, double epsilon) {
  const double line_end = 0.6 * sigma;
  if (r < line_end) {
    return vdw(line_end, sigma, epsilon) + vdw_slope(line_end, sigma, epsilon) * (r - line_end);
  }
  if (r < 4.5) return vdw(r, sigma, epsilon);
  return hermite(r, 4.5, vdw(4.5, sigma, epsilon), vdw_slope(4.5, sigma, epsilon), 6, 0, 0);
}

}  // namespace

TEST_CASE("Lennard-Jones is a line, 12-6, and a cubic; attraction and repulsion meet at sigma") {
  const LJGlobals globals = {6.0f, 0.6f};
  for (double sigma : {1.27, 2.7, 3.5, 4.02}) {
    for (double r = 0; r <= 6; r += 0.013) {
      const auto faded = fade(r, globals.max_dis);
      const auto found = lj_energy(r, sigma, 0.16, faded, globals);
      const double expected = lj(r, sigma, 0.16);
      // 0.6 as a float is 2.4e-8 more than 0.6; the energy at r = 0 is up to 800.
      CHECK(found.attraction + found.repulsion == doctest::Approx(expected).epsilon(1e-5));
      CHECK(found.attraction == doctest::Approx(r < sigma ? -0.16 : expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("the fade is 1 and 0 before it starts, and ends in 0 with no slope") {
  CHECK(fade(4.5, 6.0f).of_value == 1);
  CHECK(fade(1.0, 6.0f).of_rise == 0);
  CHECK(fade(6.0, 6.0f).of_value == doctest::Approx(0));
  CHECK(fade(6.0, 6.0f).of_rise == doctest::Approx(0));
  CHECK(fade(6.0, 6.0f).of_value == doctest::Approx(fade(5.9999, 6.0f).of_value).epsilon(1e-6));
}

TEST_CASE("close solvation is flat, then a cubic without a kink at either end") {
  CHECK(lk_close(0.0, 2.5, 3.5, 0.7, 0.4, -0.5) == doctest::Approx(0.7));
  for (double r = 2.5; r < 3.5; r += 0.01) {
    CHECK(lk_close(r, 2.5, 3.5, 0.7, 0.4, -0.5) ==
          doctest::Approx(hermite(r, 2.5, 0.7, 0, 3.5, 0.4, -0.5)));
  }
}

TEST_CASE("the exponential of vectors is that of the standard library") {
  for (float x = -100; x < 80; x += 0.37f) {
    const float found = exponential(Floats(x))[0], expected = x < -87.33f ? 0 : std::exp(x);
    CHECK(std::abs(found - expected) <= 3e-7f * expected);
  }
  const float one = exponential(Floats(0))[0];
  CHECK(one == 1);
}

TEST_CASE("packing moves the lanes that are set to the front") {
  for (int bits = 0; bits < 1 << kLanes; ++bits) {
    const Floats values([](auto lane) { return float(lane + 1); });
    const Floats flags([&](auto lane) { return float(bits >> lane & 1); });
    const Packer packer(flags > 0);
    std::vector<float> to(2 * kLanes);
    packer.pack(values, to.data());
    std::vector<float> expected;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (bits >> lane & 1) expected.push_back(float(lane + 1));
    }
    REQUIRE(packer.n_kept() == int(expected.size()));
    CHECK(std::equal(expected.begin(), expected.end(), to.begin()));
  }
}

TEST_CASE("rows are gathered by field") {
  std::vector<float> values(80);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  const auto rows = reinterpret_cast<const float (*)[8]>(values.data());
  const Ints at([](auto lane) { return int32_t((lane * 7 + 3) % 10); });
  const Fields<8> found = gather_rows(rows, at);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int field = 0; field < 8; ++field) {
      const float value = found.of[field][lane];
      CHECK(value == rows[at[lane]][field]);
    }
  }
}
