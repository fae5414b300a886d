// fa_ljatr, fa_ljrep: Lennard-Jones energy of two atoms, attraction and repulsion apart.
//
// Angstrom; TMol's energy units. As Rosetta (Alford et al. 2017, doi:10.1021/acs.jctc.7b00125)
// and TMol (score/ljlk/potentials/lj.hh): 12-6 between a line at short distance, which keeps
// clashes finite, and a cubic that ends in zero at `max_dis`.
#pragma once

#include "energy/scalar.h"
#include "energy/vec3.h"

namespace tmol_plugin {

// The distance over which energies fade, before `max_dis`.
inline constexpr float kFadeWidth = 1.5f;

struct LJGlobals {
  float max_dis;
  float dlin_factor;  // of sigma: where the line begins
};

template <class S>
struct LJEnergy {
  S attraction, repulsion;
};

// sigma: distance of the lowest energy, -epsilon.
template <class S>
TP_FN LJEnergy<S> lj_energy(S dist, S sigma, S epsilon, const LJGlobals& globals) {
  // The 12-6 part is evaluated where it ends if `dist` lies beyond either end.
  const S fade_start = min(max(sigma, S(globals.max_dis - kFadeWidth)), S(globals.max_dis - 0.1f));
  const S at = min(max(dist, globals.dlin_factor * sigma), fade_start);
  const S inverse = S(1) / at;
  const S ratio = sigma * inverse, ratio_sq = ratio * ratio;
  const S power_6 = ratio_sq * ratio_sq * ratio_sq, power_12 = power_6 * power_6;
  const S value = epsilon * (power_12 - S(2) * power_6);
  const S slope = S(12) * epsilon * (power_6 - power_12) * inverse;

  const S line = value + slope * (dist - at);
  const S width = S(globals.max_dis) - fade_start;
  const S t = (dist - fade_start) / width, rise = slope * width;
  const S fade = value + t * (rise + t * (S(-2) * rise - S(3) * value + t * (rise + S(2) * value)));
  S energy = select(dist > fade_start, fade, line);
  energy = select(dist > S(globals.max_dis), S(0), energy);

  const auto is_close = dist < sigma;
  return {select(is_close, -epsilon, energy), select(is_close, energy + epsilon, S(0))};
}

}  // namespace tmol_plugin
