// Angles and torsions against inverse trigonometric functions in double precision.
#include <doctest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "energy/angles.h"

using namespace tmol_plugin;

namespace {

using Point = Vec3<double>;
constexpr double kPi = std::numbers::pi;

// A point at an angle from a-b and a torsion about b-c, which lie on the axes.
Point turned(double angle, double turn) {
  return {1.5 - 1.3 * std::cos(angle), 1.3 * std::sin(angle) * std::cos(turn),
          1.3 * std::sin(angle) * std::sin(turn)};
}

Vec3<float> rounded(Point p) { return {float(p.x), float(p.y), float(p.z)}; }

}  // namespace

TEST_CASE("the polynomial is the arc tangent") {
  for (int i = -1000; i <= 1000; ++i) {
    const double x = i / 1000.0;
    CHECK(std::abs(atan_within_1(x) - std::atan(x)) < 8e-8);
  }
}

TEST_CASE("an angle is its size, from nothing to straight") {
  for (const double angle : {0.0, 1e-4, 0.1, 0.8, 1.57, 1.9, 2.6, 3.1, 3.1415}) {
    const Point a = {2.1 * std::cos(angle), 2.1 * std::sin(angle), 0}, b = {0, 0, 0},
                c = {1.3, 0, 0};
    CHECK(std::abs(bond_angle(a, b, c) - angle) < 2e-7);
    // A straight angle's parts are differences of numbers that are nearly equal.
    const double allowed = angle < 3.11 ? 1e-6 : 5e-4;
    CHECK(std::abs(bond_angle(rounded(a), rounded(b), rounded(c)) - angle) < allowed);
  }
}

TEST_CASE("a torsion is that of IUPAC, in all quadrants") {
  const Point a = {0.3, 1.1, 0}, b = {0, 0, 0}, c = {1.5, 0, 0};
  for (double turn = -3.1; turn < 3.15; turn += 0.1) {
    const auto [cos, sin] = torsion(a, b, c, turned(1.9, turn));
    CHECK(cos == doctest::Approx(std::cos(turn)).epsilon(1e-9));
    CHECK(sin == doctest::Approx(std::sin(turn)).epsilon(1e-9));
  }
}

TEST_CASE("where atoms coincide or lie on a line, angles and torsions are 0") {
  const Vec3<float> o = {0, 0, 0}, x = {1, 0, 0}, y = {0, 1, 0}, far = {2, 0, 0};
  CHECK(bond_angle(o, o, o) == doctest::Approx(0).epsilon(1e-6));
  CHECK(bond_angle(o, o, x) == doctest::Approx(0).epsilon(1e-6));
  CHECK(bond_angle(x, o, far) == doctest::Approx(0).epsilon(1e-6));
  CHECK(bond_angle(o, x, far) == doctest::Approx(0).epsilon(1e-6));  // straight: as TMol has it
  for (const auto [cos, sin] : {torsion(o, o, o, o), torsion(o, x, far, y), torsion(y, o, o, x)}) {
    CHECK(cos == 1);
    CHECK(sin == 0);
  }
}

TEST_CASE("planar torsions in float are 0 and 180 degrees") {
  const Vec3<float> a = {0, 1, 0}, b = {0, 0, 0}, c = {1.5f, 0, 0};
  CHECK(torsion(a, b, c, {2, 1, 0}).cos == 1);
  CHECK(torsion(a, b, c, {2, -1, 0}).cos == -1);
  CHECK(torsion(a, b, c, {2, -1, 0}).sin == 0);
}
