// What term code asks of its scalar beyond arithmetic, sqrt, min and max.
//
// Vectors of floats specialize these templates (cpu/simd.h). Their names are not those of the
// standard library, whose functions of vectors would be found first, and are slow.
#pragma once

#include <algorithm>
#include <cmath>

#include "energy/vec3.h"

namespace tmol_plugin {

using std::max;
using std::min;
using std::sqrt;

// A choice without a branch; a vector's lanes choose each for themselves.
template <class Mask, class S>
TP_FN S select(Mask yes, S a, S b) {
  return yes ? a : b;
}

// Whether any lane is set.
template <class Mask>
TP_FN bool any_of(Mask mask) {
  return mask;
}

template <class S>
TP_FN S exponential(S x) {
  return std::exp(x);
}

template <class S>
TP_FN S logarithm(S x) {
  return std::log(x);
}

}  // namespace tmol_plugin
