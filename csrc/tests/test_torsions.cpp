// Torsions, splines through periodic tables, and the energies made of them: closed forms.
#include <doctest.h>

#include <cmath>
#include <initializer_list>
#include <random>
#include <vector>

#include "cpu/torsion_tables.h"
#include "energy/backbone.h"
#include "energy/dunbrack.h"

using namespace tmol_plugin;

namespace {

constexpr double kDegree = kPi / 180;
constexpr double kStep = 2 * kPi / kGrid;

// The cubic B-spline, by its pieces.
double basis(double x) {
  x = std::abs(x);
  if (x < 1) return 2.0 / 3 - x * x + x * x * x / 2;
  return x < 2 ? std::pow(2 - x, 3) / 6 : 0;
}

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a torsion is IUPAC's, at any place and scale") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const auto anywhere = [&] {
    return Vec3<double>{normal(random), normal(random), normal(random)};
  };
  for (int i = 0; i < 1000; ++i) {
    const Vec3<double> a = anywhere(), b = anywhere(), c = anywhere(), d = anywhere();
    const Vec3<double> m = cross(b - a, c - b), n = cross(c - b, d - c);
    const double expected = std::atan2(norm(c - b) * dot(b - a, n), dot(m, n));
    CHECK(dihedral(a, b, c, d) == doctest::Approx(expected).epsilon(1e-6));
    CHECK(dihedral(d, c, b, a) == doctest::Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("torsions in a plane, on a line and in one place are numbers") {
  const Vec3<float> o = {0, 0, 0}, x = {1, 0, 0}, y = {0, 1, 0}, xx = {2, 0, 0};
  const Vec3<float> cis = {1, 1, 0}, trans = {1, -1, 0};
  CHECK(std::abs(dihedral(y, o, x, cis)) == 0);
  CHECK(std::abs(dihedral(y, o, x, trans)) == float(kPi));
  CHECK(dihedral(y, o, x, {1, 0, 1}) == doctest::Approx(kPi / 2));
  CHECK(dihedral(o, x, xx, y) == 0);
  CHECK(dihedral(y, o, o, x) == 0);
  CHECK(dihedral(o, o, o, o) == 0);
}

TEST_CASE("the coefficients of a cosine are a cosine") {
  // The B-spline multiplies a wave of w radians a step by (2 + cos w) / 3.
  for (int wave : {0, 1, 5, 18}) {
    for (size_t stride : {1, 3}) {
      std::vector<double> values(2 * kGrid * stride);
      const auto at = [&](size_t i) { return std::cos(kStep * wave * (i / stride % kGrid) + 0.3); };
      for (size_t i = 0; i < values.size(); ++i) values[i] = (1 + i % stride) * at(i);
      fit_spline(values, stride);
      const double gain = 3 / (2 + std::cos(kStep * wave));
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(std::abs(values[i] - gain * (1 + i % stride) * at(i)) < 1e-13);
      }
    }
  }
}

TEST_CASE("a stencil is the B-spline about its point, periodically") {
  for (double x : {-37.2, -36.0, -0.5, 0.0, 0.25, 1.0, 34.9, 35.5, 36.0, 71.99, 80.0}) {
    const Stencil<double> made = stencil(x);
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      CHECK(made.points[i] >= 0);
      CHECK(made.points[i] < kGrid);
      double expected = 0;
      for (int turn = -3; turn <= 3; ++turn) expected += basis(x - made.points[i] - turn * kGrid);
      CHECK(made.weights[i] == doctest::Approx(expected));
      sum += made.weights[i];
    }
    CHECK(sum == doctest::Approx(1));
  }
}

TEST_CASE("splines go through their tables, and are smooth between and across the edge") {
  // Of waves so long that a spline is exact to 1e-4 between its points.
  const auto wave = [](double a, double b, double c) {
    return std::cos(kStep * a + 0.2) * std::sin(kStep * b) + std::cos(kStep * (b + c));
  };
  std::vector<double> two(kGrid * kGrid * 2), three(kGrid * kGrid * kGrid);
  for (int a = 0; a < kGrid; ++a) {
    for (int b = 0; b < kGrid; ++b) {
      two[(a * kGrid + b) * 2] = wave(a, b, 0);
      two[(a * kGrid + b) * 2 + 1] = wave(b, a, 1);
      for (int c = 0; c < kGrid; ++c) three[(a * kGrid + b) * kGrid + c] = wave(a, b, c);
    }
  }
  for (size_t stride : {2, 2 * kGrid}) fit_spline(two, stride);
  for (size_t stride : {1, kGrid, kGrid * kGrid}) fit_spline(three, stride);
  const std::vector<float> table = rounded(two), cube = rounded(three);
  for (double a : {0.0, 7.0, 17.4, 35.0, 35.7, 36.0, -0.3}) {
    for (double b : {0.0, 12.5, 35.9}) {
      double values[2];
      spline(table.data(), 2, stencil(a), stencil(b), values);
      const bool is_point = a == std::floor(a) && b == std::floor(b);
      const double allowed = is_point ? 2e-6 : 1e-4;
      CHECK(std::abs(values[0] - wave(a, b, 0)) < allowed);
      CHECK(std::abs(values[1] - wave(b, a, 1)) < allowed);
      for (double c : {0.0, 20.0, 35.6}) {
        const double found = spline(cube.data(), stencil(a), stencil(b), stencil(c));
        CHECK(std::abs(found - wave(a, b, c)) < (is_point && c < 35 ? 2e-6 : 1e-4));
      }
    }
  }
}

TEST_CASE("omega: as good cis as trans without phi and psi, a normal distribution with") {
  CHECK(planar_omega(0.1) == doctest::Approx(0.328));
  CHECK(planar_omega(kPi - 0.1) == doctest::Approx(0.328));
  CHECK(planar_omega(0.1 - kPi) == doctest::Approx(0.328));
  CHECK(trans_omega(kPi, 180.0, 6.0) == doctest::Approx(0));
  CHECK(trans_omega(174 * kDegree, 180.0, 6.0) == doctest::Approx(0.5));
  CHECK(trans_omega(-178 * kDegree, 176.0, 6.0) == doctest::Approx(0.5));
  CHECK(trans_omega(180 * kDegree, 180.0, 12.0) == doctest::Approx(std::log(2)));
}

TEST_CASE("wells are thirds of a turn, edges to the one above") {
  const double third = 2 * kPi / 3, little = 1e-9;
  CHECK(rotamer_well(0.0) == 0);
  CHECK(rotamer_well(-0.0) == 0);
  CHECK(rotamer_well(third - little) == 0);
  CHECK(rotamer_well(third) == 1);
  CHECK(rotamer_well(kPi) == 1);
  CHECK(rotamer_well(-kPi) == 1);
  CHECK(rotamer_well(-third - little) == 1);
  CHECK(rotamer_well(-third) == 2);
  CHECK(rotamer_well(-little) == 2);
}

TEST_CASE("a chi deviates the shorter way round") {
  CHECK(chi_deviation(60 * kDegree, 70 * kDegree, 5 * kDegree) == doctest::Approx(2));
  CHECK(chi_deviation(-175 * kDegree, 175 * kDegree, 10 * kDegree) == doctest::Approx(0.5));
  CHECK(chi_deviation(-178 * kDegree, 239 * kDegree, 57 * kDegree) == doctest::Approx(0.5));
  CHECK(chi_deviation(179 * kDegree, -119 * kDegree, 62 * kDegree) == doctest::Approx(0.5));
}
