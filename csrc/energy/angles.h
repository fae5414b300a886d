// Bond angles, and cosines and sines of torsions, in arithmetic and square roots only.
//
// Radians. As TMol's score/common/geom.hh takes them from coordinates, also where atoms
// coincide or lie on a line: then an angle or a torsion is 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "energy/vec3.h"

namespace tmol_plugin {

// Added above and below where a quotient may be 0 / 0, and lost beside any other number.
inline constexpr float kTiny = 1e-30f;

// The arc tangent of x in [-1, 1] to 8e-8, by the odd polynomial of the least error.
template <class S>
TP_FN S atan_within_1(S x) {
  constexpr float coefficients[] = {-0.00405456602f, 0.0218629534f, -0.0559123202f, 0.0964219683f,
                                    -0.139086294f,   0.199465656f,  -0.333298608f,  0.999999336f};
  const S z = x * x;
  S sum = coefficients[0];
  for (int i = 1; i < 8; ++i) sum = sum * z + coefficients[i];
  return x * sum;
}

// The angle a-b-c. As TMol, twice the angle of the vector (along, across), which tells small
// angles from each other. Where atoms lie straight on a line, both are rounding's: TMol then has
// 0, or 2 pi, and so have we.
template <class S>
TP_FN S bond_angle(Vec3<S> a, Vec3<S> b, Vec3<S> c) {
  using std::abs, std::copysign;
  constexpr float pi = 3.14159265f, half_pi = 1.57079633f;
  const Vec3<S> u = a - b, v = c - b;
  const S across = norm(cross(u, v));
  const S along = norm(u) * norm(v) + dot(u, v), side = abs(along);
  const S from_diagonal = atan_within_1<S>((across - side - kTiny) / (across + side + kTiny));
  return pi - copysign(half_pi - 2.0f * from_diagonal, along);
}

template <class S>
struct CosSin {
  S cos, sin;
};

// The torsion a-b-c-d. Its sign is IUPAC's. Its sine follows from its cosine, as rounded: what
// TMol's arc cosine keeps of it.
template <class S>
TP_FN CosSin<S> torsion(Vec3<S> a, Vec3<S> b, Vec3<S> c, Vec3<S> d) {
  using std::copysign, std::max, std::min, std::sqrt;
  const Vec3<S> f = a - b, g = b - c, h = d - c;
  const Vec3<S> m = cross(f, g), n = cross(h, g);
  const S quotient = (dot(m, n) + kTiny) / (norm(m) * norm(n) + kTiny);
  const S cos = max(min(quotient, S(1.0f)), S(-1.0f));
  const S sin = sqrt((1.0f - cos) * (1.0f + cos));
  return {cos, -copysign(sin, dot(f, n) + 0.0f)};  // the sum: -0 counts as 0
}

}  // namespace tmol_plugin
