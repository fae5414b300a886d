// Where lk_ball puts waters about polar atoms. Angstroms and radians; as TMol (score/lk_ball/
// potentials/water.hh, score/common/gen_coord.hh).
#pragma once

#include <cmath>

#include "energy/vec3.h"

namespace tmol_plugin {

// On the line from a donor through its hydrogen; on the donor where both are at one point.
template <class S>
TP_FN Vec3<S> donor_water(Vec3<S> donor, Vec3<S> hydrogen, S dist) {
  const Vec3<S> along = hydrogen - donor;
  const S length = norm(along);
  return length > 0 ? donor + (dist / length) * along : donor;
}

// From an acceptor: a water is `along` further on the line from its base, and `across` and
// `aside` off it, in the plane of the second base and out of it.
template <class S>
struct WaterPlace {
  S along, across, aside;
};

// False if acceptor and base are at one point.
template <class S>
TP_FN bool acceptor_water(Vec3<S> acceptor, Vec3<S> base, Vec3<S> second_base, WaterPlace<S> place,
                          Vec3<S>* water) {
  Vec3<S> x = acceptor - base;
  const S length = norm(x);
  if (!(length > 0)) return false;
  x = (1 / length) * x;
  Vec3<S> z = cross(x, second_base - base);
  if (!(norm(z) > 0)) {
    // On a line they span no plane: TMol's choice of one.
    const bool is_along_axis = x.x == 1 || x.x == -1;
    z = cross(x, is_along_axis ? Vec3<S>{0, 1, 0} : Vec3<S>{1, 0, 0});
  }
  z = (1 / norm(z)) * z;
  *water = acceptor + place.along * x + place.across * cross(z, x) + place.aside * z;
  return true;
}

}  // namespace tmol_plugin
