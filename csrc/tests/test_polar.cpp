// Hydrogen bonds, waters and what they share, against their formulas with angles in double.
#include <doctest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "energy/hbond.h"
#include "energy/lk_ball.h"
#include "energy/waters.h"
#include "prepare/geometry.h"

using namespace tmol_plugin;

namespace {

using Point = Vec3<double>;
constexpr double kHalfTurn = std::numbers::pi;

Vector vector_of(Point p) { return {p.x, p.y, p.z}; }
double inner(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
double cosine(Vector a, Vector b) { return inner(a, b) / (a.norm() * b.norm()); }

// Constant, first and second power; within the range.
HBondPolynomial polynomial(double c0, double c1, double c2, double low, double high) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, c2, c1, c0}, {low, high}, {1.1, 1.1}};
}

const HBondPair kPair = {polynomial(-1.6, 0.3, 0.1, 0.9, 2.9),
                         polynomial(-0.1, -0.7, 0.2, -0.2, 1.1),
                         polynomial(0.9, -0.8, 0.1, 1.1, 3.1416), 1.3f};
const HBondGlobals kGlobals = {1.6f, 0.75f, 0.357f, 2.5f, 9.0f};

double value(const HBondPolynomial& p, double x) {
  if (x < p.range[0] || x > p.range[1]) return 1.1;
  return p.coefficients[8] * x * x + p.coefficients[9] * x + p.coefficients[10];
}

double naive_hbond(Point donor, Point hydrogen, const HBondAcceptor<double>& acceptor) {
  const Vector d = vector_of(donor), h = vector_of(hydrogen), a = vector_of(acceptor.at),
               b = vector_of(acceptor.base), b0 = vector_of(acceptor.second_base);
  double energy =
      value(kPair.dist, (h - a).norm()) + value(kPair.ahd, std::acos(cosine(a - h, d - h)));
  const auto of_base = [&](Vector base) { return value(kPair.cos_bah, cosine(h - a, a - base)); };
  if (acceptor.hybridization == kRing) {
    energy += of_base((b + b0) * 0.5);
  } else if (acceptor.hybridization == kSp3) {
    energy += std::log(std::exp(2.5 * of_base(b)) + std::exp(2.5 * of_base(b0))) / 2.5;
  } else {
    const double bah = std::acos(cosine(b - a, h - a));
    const double chi = std::acos(cosine(cross(b0 - b, a - b), cross(b - a, h - a)));
    const double in_plane = 0.5 * (std::cos(2 * chi) + 1), third = 2 * kHalfTurn / 3;
    double f, g;
    if (bah > third) {
      f = 0.75 / 2 * std::cos(3 * (kHalfTurn - bah)) + 0.75 / 2 - 0.5;
      g = 0.75 - 0.5;
    } else if (bah >= kHalfTurn * (2.0 / 3 - 0.357)) {
      const double rise = std::cos(kHalfTurn - (third - bah) / 0.357);
      f = 1.6 / 2 * rise + 1.6 / 2 - 0.5;
      g = (1.6 - 0.75) / 2 * rise + (1.6 - 0.75) / 2 + 0.75 - 0.5;
    } else {
      f = g = 1.6 - 0.5;
    }
    energy += of_base(b) + in_plane * f + (1 - in_plane) * g;
  }
  energy *= 1.3;
  if (energy > 0.1) return 0;
  return energy > -0.1 ? -0.025 + 0.5 * energy - 2.5 * energy * energy : energy;
}

double dist_between(Point a, Point b) { return (vector_of(a) - vector_of(b)).norm(); }

}  // namespace

TEST_CASE("a hydrogen bond is its polynomials, an acceptor's planes, and fades when weak") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const auto near = [&](double x, double y, double z, double spread) {
    return Point{x + spread * normal(random), y + spread * normal(random),
                 z + spread * normal(random)};
  };
  for (int kind : {kSp2, kSp3, kRing}) {
    int n_strong = 0, n_weak = 0;
    for (int i = 0; i < 20000; ++i) {
      const HBondAcceptor<double> acceptor = {
          {0, 0, 0}, near(-1.2, 0, 0, 0.3), near(-1.7, 1.1, 0, 0.3), kind};
      const Point hydrogen = near(1.6, 0.5, 0, 0.7), donor = hydrogen + near(0.8, 0, 0, 0.4);
      const double expected = naive_hbond(donor, hydrogen, acceptor);
      const double found = hbond_energy(donor, hydrogen, acceptor, kPair, kGlobals);
      // Angles are to 2e-7; parameters are floats. A range's end is on either side.
      const double edge = std::abs(dist_between(hydrogen, acceptor.at) - 2.9);
      if (edge > 1e-5) CHECK(std::abs(found - expected) < 2e-5);
      n_strong += expected <= -0.1;
      n_weak += expected > -0.1 && expected < 0;
    }
    CHECK(n_strong > 1000);
    CHECK(n_weak > 100);
  }
}

TEST_CASE("a hydrogen bond of atoms at one point or on a line has an energy") {
  const Vec3<float> o = {0, 0, 0}, x = {1, 0, 0}, far = {2, 0, 0};
  for (int kind : {kSp2, kSp3, kRing}) {
    for (const Vec3<float>& hydrogen : {o, x, far}) {
      for (const Vec3<float>& donor : {o, x, far}) {
        for (const Vec3<float>& base : {o, x}) {
          const HBondAcceptor<float> acceptor = {o, base, base, kind};
          CHECK(std::isfinite(hbond_energy(donor, hydrogen, acceptor, kPair, kGlobals)));
        }
      }
    }
  }
}

TEST_CASE("a donor's water is beyond its hydrogen; without a direction, on the donor") {
  const Point donor = {1, 2, 3}, hydrogen = {1, 2, 4.01};
  CHECK(dist_between(donor_water(donor, hydrogen, 2.8), {1, 2, 5.8}) < 1e-12);
  CHECK(dist_between(donor_water(donor, donor, 2.8), donor) == 0);
}

TEST_CASE("an acceptor's water is at its distance, angle and torsion") {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  const auto anywhere = [&] { return Point{normal(random), normal(random), normal(random)}; };
  for (double angle : {1.91, 2.35, 3.14159}) {
    for (double torsion : {0.0, 2.1, 4.2, 3.14159}) {
      const Point acceptor = anywhere(), base = anywhere(), second = anywhere();
      const double off = kHalfTurn - angle;
      const WaterPlace<double> place = {2.828 * std::cos(off),
                                        2.828 * std::sin(off) * std::cos(torsion),
                                        2.828 * std::sin(off) * std::sin(torsion)};
      Point water = {};
      REQUIRE(acceptor_water(acceptor, base, second, place, &water));
      const Vector expected = tmol_plugin::place(vector_of(acceptor), vector_of(base),
                                                 vector_of(second), 2.828, angle, torsion);
      CHECK((vector_of(water) - expected).norm() < 1e-9);
    }
  }
}

TEST_CASE(
    "a water of an acceptor on a line with its bases is at its distance; at one point, none") {
  const WaterPlace<float> place = {1, 2, 0};
  Vec3<float> water = {};
  for (const Vec3<float>& along : {Vec3<float>{1, 0, 0}, {0, 1, 0}, {0.6f, 0, 0.8f}}) {
    REQUIRE(acceptor_water<float>({0, 0, 0}, along, 2.0f * along, place, &water));
    CHECK(norm(water) == doctest::Approx(std::sqrt(5)));
  }
  CHECK(!acceptor_water<float>({1, 1, 1}, {1, 1, 1}, {0, 0, 0}, place, &water));
}

TEST_CASE("contact rises from 0 at the ramp's width to 1 at no excess") {
  for (float width : {kWaterRamp, kOverlapRamp}) {
    CHECK(contact(0.0f, width) == 0);
    CHECK(contact(std::exp(-width), width) == 0);
    CHECK(contact(1.0f, width) == 1);
    CHECK(contact(3.0f, width) == 1);
    for (double excess = 0.01; excess < width; excess += 0.01) {
      const double expected = std::pow(1 - std::pow(excess / width, 2), 2);
      CHECK(contact(std::exp(-excess), width) == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("a water touches fully up to 1.4 A and the radius, less the ramp") {
  CHECK(contact_dist_sq(2.0) == doctest::Approx(3.4 * 3.4 - 3.709));
  CHECK(contact_dist_sq(0.1) == 0);
}

TEST_CASE("a bridge is best at the distance of a tetrahedral water, and ends 7.28 A^2 from it") {
  const double best = 8.0 / 3 * 2.828 * 2.828, end = 2.8 * 2.6;
  CHECK(bridge_angle(best, 2.828f) == doctest::Approx(1).epsilon(1e-6));
  for (double off = -9; off < 9; off += 0.1) {
    const double share = std::max(0.0, 1 - off * off / (end * end));
    CHECK(bridge_angle(best + off, 2.828f) == doctest::Approx(share * share).epsilon(1e-5));
  }
}
