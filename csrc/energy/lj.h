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

// The cubic that ends in zero, with no slope, at `max_dis`: the weights of the energy where it
// starts, and of the slope there times kFadeWidth. Before it starts, 1 and 0.
template <class S>
struct Fade {
  S of_value, of_rise;
};

template <class S>
TP_FN Fade<S> fade(S dist, float max_dis) {
  const S t = max(S(0), (dist - S(max_dis - kFadeWidth)) * S(1 / kFadeWidth));
  return {S(1) + t * t * (S(2) * t - S(3)), t * (S(1) + t * (t - S(2)))};
}

template <class S>
struct LJEnergy {
  S attraction, repulsion;
};

// sigma: distance of the lowest energy, -epsilon; at most max_dis - kFadeWidth, where TMol would
// start the fade later. `dist` is at most max_dis, and `faded` is fade(dist, max_dis).
template <class S>
TP_FN LJEnergy<S> lj_energy(S dist, S sigma, S epsilon, Fade<S> faded, const LJGlobals& globals) {
  // The 12-6 part is evaluated where it ends if `dist` lies beyond either end.
  const S before_fade = min(dist, S(globals.max_dis - kFadeWidth));
  const S at = max(before_fade, S(globals.dlin_factor) * sigma);
  const S inverse = S(1) / at;
  const S ratio = sigma * inverse, ratio_sq = ratio * ratio;
  const S power_6 = ratio_sq * ratio_sq * ratio_sq;
  const S value = epsilon * power_6 * (power_6 - S(2));
  const S slope = S(12) * epsilon * (power_6 - power_6 * power_6) * inverse;
  const S energy =
      (value + slope * (before_fade - at)) * faded.of_value + S(kFadeWidth) * slope * faded.of_rise;
  const auto is_close = dist < sigma;
  return {select(is_close, -epsilon, energy), select(is_close, energy + epsilon, S(0))};
}

}  // namespace tmol_plugin
