// lk_ball_iso, lk_ball, lk_bridge, lk_bridge_uncpl: solvation that depends on where a polar
// atom's waters are. Angstroms; TMol's energy units.
//
// As TMol (score/lk_ball/potentials/lk_ball.hh). With LK the solvation that atom J takes away
// from atom I (energy/lk.h), for I with waters: lk_ball_iso is LK; lk_ball is LK times the share
// of I's waters that J displaces; lk_bridge is LK times the share of waters that I and J have
// in common, lk_bridge_uncpl half that share.
#pragma once

#include "energy/scalar.h"
#include "energy/vec3.h"

namespace tmol_plugin {

// Square angstroms; not in TMol's database.
inline constexpr float kWaterRamp = 3.709f, kOverlapGap = 0.5f, kOverlapRamp = 2.6f,
                       kAngleRamp = 2.8f * kOverlapRamp;
inline constexpr float kWaterRadius = 1.4f;
inline constexpr int kMaxWaters = 4;
// Where waters are that an atom does not have: no exponential of such a distance is not 0.
inline constexpr float kNoWater = 1e15f;

// From 0 where the sum of exp(-excess) is exp(-width), to 1 where it is 1. An excess is by how
// much a squared distance exceeds that of full contact.
template <class S>
TP_FN S contact(S exponential_sum, float width) {
  const S lowest = S(std::exp(-width));
  const S excess = -logarithm(min(max(exponential_sum, lowest), S(1)));
  const S share = excess * S(1 / width);
  const S rest = S(1) - share * share;
  return select(exponential_sum > lowest, rest * rest, S(0));
}

// The squared distance of a water and an occluding atom in full contact.
template <class S>
TP_FN S contact_dist_sq(S radius) {
  const S reach = S(kWaterRadius) + radius;
  return max(S(0), reach * reach - S(kWaterRamp));
}

// How far two atoms are from the distance at which they share waters best: 1 there.
template <class S>
TP_FN S bridge_angle(S dist_sq, float water_dist) {
  const S off = (dist_sq - S(8.0f / 3.0f * water_dist * water_dist)) * S(1 / kAngleRamp);
  const S rest = max(S(0), S(1) - off * off);
  return rest * rest;
}

}  // namespace tmol_plugin
