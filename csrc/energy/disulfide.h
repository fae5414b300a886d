// The energy of a disulfide bond: its length, angles and torsions, by how frequent they are.
//
// Angstroms and radians. The length is of a skew normal distribution, angles are of a von Mises
// one, torsions of mixtures of these. As TMol's score/disulfide.
#pragma once

#include "energy/angles.h"
#include "energy/pose_view.h"

namespace tmol_plugin {

// The logarithm of its density at x: log_a + kappa cos(x - mean).
struct VonMises {
  float log_a, kappa, mean;
};

struct DisulfideView {
  float length, length_scale, length_shape;
  VonMises angle;            // C-S-S
  VonMises sulfur[2];        // C-S-S-C of two L residues; their mirror image of two D
  VonMises mixed_sulfur[2];  // of an L and a D residue
  VonMises carbon[3];        // C-C-S-S of an L residue; the mirror image of a D
  float sulfur_weight, carbon_weight, angle_weight, length_weight, shift;
  const int32_t* connection;   // [n_types] to the other half; -1
  const uint8_t* is_mirrored;  // [n_types] D
};

template <class S>
struct HalfCystine {
  Vec3<S> s, cb, ca;
  bool is_mirrored;
};

// Minus the logarithm of a mixture's density, to which exp(-20) is added.
template <class S, int N>
TP_FN S minus_log(const VonMises (&parts)[N], CosSin<S> torsion, bool is_mirrored) {
  using std::atan2, std::cos, std::exp, std::log;
  const S x = atan2(is_mirrored ? -torsion.sin : torsion.sin, torsion.cos);
  S density = exp(S(-20));
  for (const VonMises& part : parts) density += exp(part.log_a + part.kappa * cos(x - part.mean));
  return -log(density);
}

template <class S>
TP_FN S disulfide_energy(const DisulfideView& view, const HalfCystine<S>& a,
                         const HalfCystine<S>& b) {
  using std::cos, std::erfc, std::exp, std::log;
  constexpr float half_root = 0.707106781f;
  const S z = (norm(a.s - b.s) - view.length) / view.length_scale;
  const S length = z * z / 2 - log(erfc(-view.length_shape * half_root * z) + exp(S(-20)));
  const S angles = cos(bond_angle(a.cb, a.s, b.s) - view.angle.mean) +
                   cos(bond_angle(b.cb, b.s, a.s) - view.angle.mean);
  const CosSin<S> about_sulfurs = torsion(a.cb, a.s, b.s, b.cb);
  const S sulfur = a.is_mirrored == b.is_mirrored
                       ? minus_log(view.sulfur, about_sulfurs, a.is_mirrored)
                       : minus_log(view.mixed_sulfur, about_sulfurs, false);
  const S carbon = minus_log(view.carbon, torsion(a.ca, a.cb, a.s, b.s), a.is_mirrored) +
                   minus_log(view.carbon, torsion(b.ca, b.cb, b.s, a.s), b.is_mirrored);
  return view.length_weight * length -
         view.angle_weight * (2 * view.angle.log_a + view.angle.kappa * angles) +
         view.sulfur_weight * sulfur + view.carbon_weight * carbon - view.shift;
}

}  // namespace tmol_plugin
