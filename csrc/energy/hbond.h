// hbond: energy of a hydrogen bond from its distance and angles.
//
// Angstroms and radians; TMol's energy units. As Rosetta (O'Meara et al. 2015,
// doi:10.1021/ct500864r) and TMol (score/hbond/potentials/potentials.hh): polynomials of the
// distance A-H, the angle A-H-D and the cosine of B-A-H, and for sp2 acceptors a term of the
// angle B-A-H and the torsion B0-B-A-H.
#pragma once

#include "energy/angles.h"
#include "energy/pose_view.h"

namespace tmol_plugin {

enum Hybridization { kSp2 = 1, kSp3 = 2, kRing = 3 };

// Constant beyond its range. Coefficients have the highest power first.
struct HBondPolynomial {
  double coefficients[11];
  double range[2], bound[2];

  TP_FN double operator()(double x) const {
    if (x < range[0]) return bound[0];
    if (x > range[1]) return bound[1];
    double sum = coefficients[0];
    for (int i = 1; i < 11; ++i) sum = sum * x + coefficients[i];
    return sum;
  }
};

// Of a donor type and an acceptor type.
struct HBondPair {
  HBondPolynomial dist, cos_bah, ahd;
  float weight;
};

struct HBondGlobals {
  float range_span, bah_180_rise, outer_width, softmax_fade;
  float max_dist_sq;  // no longer bond has an energy
};

template <class S>
struct HBondAcceptor {
  Vec3<S> at, base, second_base;
  int hybridization;
};

// Of the angle B-A-H and the squared cosine of the torsion about A-B.
template <class S>
TP_FN S sp2_energy(S angle, S cos_sq, const HBondGlobals& globals) {
  const S third = S(2.0943951f);  // two thirds of pi
  const S d = globals.bah_180_rise, m = globals.range_span, l = globals.outer_width;
  S in_plane, out_of_plane;
  if (angle > third) {
    const S c = std::cos(angle);
    const S cos_3 = c * (S(4) * c * c - S(3));
    in_plane = d / 2 * (S(1) - cos_3) - S(0.5f);
    out_of_plane = d - S(0.5f);
  } else if (angle >= third - l * S(3.14159265f)) {
    const S rise = S(0.5f) * (S(1) - std::cos((third - angle) / l));
    in_plane = m * rise - S(0.5f);
    out_of_plane = (m - d) * rise + d - S(0.5f);
  } else {
    return m - S(0.5f);
  }
  return cos_sq * in_plane + (S(1) - cos_sq) * out_of_plane;
}

template <class S>
TP_FN S hbond_energy(Vec3<S> donor, Vec3<S> hydrogen, const HBondAcceptor<S>& acceptor,
                     const HBondPair& pair, const HBondGlobals& globals) {
  const Vec3<S> at = acceptor.at;
  const Vec3<S> bond = hydrogen - at;
  S energy = S(pair.dist(norm(bond))) + S(pair.ahd(bond_angle(at, hydrogen, donor)));

  const auto of_base = [&](Vec3<S> base) {
    const Vec3<S> axis = at - base;
    // TMol divides by the lengths; atoms at one point have no cosine there, and 0 here.
    return S(pair.cos_bah(dot(bond, axis) / (norm(bond) * norm(axis) + kTiny)));
  };
  if (acceptor.hybridization == kRing) {
    energy += of_base(S(0.5f) * (acceptor.base + acceptor.second_base));
  } else if (acceptor.hybridization == kSp3) {
    const S fade = globals.softmax_fade;
    energy += std::log(std::exp(fade * of_base(acceptor.base)) +
                       std::exp(fade * of_base(acceptor.second_base))) /
              fade;
  } else {
    const S cos = torsion(acceptor.second_base, acceptor.base, at, hydrogen).cos;
    energy += of_base(acceptor.base) +
              sp2_energy(bond_angle(acceptor.base, at, hydrogen), cos * cos, globals);
  }
  energy *= pair.weight;
  // Weak ones fade out.
  if (energy > S(0.1f)) return S(0);
  if (energy > S(-0.1f)) return S(-0.025f) + S(0.5f) * energy - S(2.5f) * energy * energy;
  return energy;
}

}  // namespace tmol_plugin
