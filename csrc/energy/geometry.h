// Torsion angles in radians, of IUPAC's sign (TMol: score/common/geom.hh).
#pragma once

#include "energy/pose_view.h"

namespace tmol_plugin {

inline constexpr double kPi = 3.14159265358979323846;

// The torsion a-b-c-d, in [-pi, pi]; 0 where three of the atoms lie on a line.
//
// As TMol an arc cosine, with TMol's order of additions: where the atoms are all but in a plane,
// 0.02 degrees and the sign hang on the last bit.
template <class S>
TP_FN S dihedral(Vec3<S> a, Vec3<S> b, Vec3<S> c, Vec3<S> d) {
  using std::acos, std::sqrt;
  const auto product = [](Vec3<S> u, Vec3<S> v) { return u.x * v.x + (u.y * v.y + u.z * v.z); };
  const Vec3<S> axis = b - c;
  const Vec3<S> m = cross(a - b, axis), n = cross(d - c, axis);
  S cosine = product(m, n) / (sqrt(product(m, m)) * sqrt(product(n, n)));
  if (!(cosine < 1)) cosine = 1;  // also where it is no number
  if (cosine < -1) cosine = -1;
  const S angle = acos(cosine);
  return product(axis, cross(m, n)) >= 0 ? -angle : angle;
}

// The torsion of four atoms as `block` names them: false if one of them is not there.
template <class S>
TP_FN bool measure_torsion(const BlockTypesView& types, const PoseView& pose, int block,
                           const AtomId* ids, S& angle) {
  Vec3<S> at[4];
  for (int i = 0; i < 4; ++i) {
    const int atom = find_atom(types, pose, block, ids[i]);
    if (atom < 0) return false;
    at[i] = pose.position<S>(atom);
  }
  angle = dihedral(at[0], at[1], at[2], at[3]);
  return true;
}

}  // namespace tmol_plugin
