// The place of an atom from three others, against distances, angles and dihedrals of its own.
#include <doctest.h>

#include <cmath>
#include <initializer_list>
#include <numbers>

#include "prepare/geometry.h"

using tmol_plugin::cross;
using tmol_plugin::place;
using tmol_plugin::Vector;

namespace {

double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

double angle(Vector a, Vector b, Vector c) {
  const Vector u = a - b, v = c - b;
  return std::acos(dot(u, v) / (u.norm() * v.norm()));
}

// The dihedral a-b-c-d by the usual formula with atan2 (IUPAC's sign).
double dihedral(Vector a, Vector b, Vector c, Vector d) {
  const Vector b1 = b - a, b2 = c - b, b3 = d - c;
  const Vector n1 = cross(b1, b2), n2 = cross(b2, b3);
  return std::atan2(dot(cross(n1, n2), b2) / b2.norm(), dot(n1, n2));
}

}  // namespace

TEST_CASE("an atom is placed at its distance, angle and dihedral") {
  const Vector reference = {1.2, -0.3, 0.7}, grandparent = {0.1, 0.9, -0.4},
               parent = {-0.8, 1.7, 0.5};
  for (double distance : {0.96, 1.09, 1.25})
    for (double bend : {0.6, 1.2, 1.9, 3.0})
      for (double turn : {-3.0, -1.0, 0.0, 1e-3, 2.1, std::numbers::pi}) {
        const Vector atom = place(parent, grandparent, reference, distance, bend, turn);
        CHECK((atom - parent).norm() == doctest::Approx(distance).epsilon(1e-12));
        CHECK(angle(atom, parent, grandparent) == doctest::Approx(bend).epsilon(1e-9));
        const double found = dihedral(reference, grandparent, parent, atom);
        CHECK(std::cos(found - turn) == doctest::Approx(1).epsilon(1e-12));
        CHECK(std::abs(std::sin(found - turn)) < 1e-7);
      }
}

TEST_CASE("a hand-made case") {
  // Bond along z, reference along x: a right angle and no turn lead along x again.
  const Vector atom = place({0, 0, 1}, {0, 0, 0}, {1, 0, 0}, 2, std::numbers::pi / 2, 0);
  CHECK(atom.x == doctest::Approx(2));
  CHECK(std::abs(atom.y) < 1e-12);
  CHECK(atom.z == doctest::Approx(1));
}

TEST_CASE("three atoms on a line give no place") {
  const Vector atom = place({0, 0, 2}, {0, 0, 1}, {0, 0, 0}, 1, 1, 1);
  CHECK(!std::isfinite(atom.x + atom.y + atom.z));
}
