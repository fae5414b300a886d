// Periodic cubic B-splines over grids of torsion angles (TMol: numeric/bspline_compiled;
// Thevenaz, Blu and Unser, IEEE Transactions on Medical Imaging 19, 739, 2000).
//
// A table holds coefficients, not values: cpu/torsion_tables.h derives them.
#pragma once

#include "energy/vec3.h"

namespace tmol_plugin {

// Points of a period, in every direction of every table.
inline constexpr int kGrid = 36;

// What a spline reads of one direction.
template <class S>
struct Stencil {
  int points[4];
  S weights[4];
};

// At `x` steps from the first point.
template <class S>
TP_FN Stencil<S> stencil(S x) {
  int below = int(x);
  if (x < S(below)) --below;
  const S t = x - S(below), u = 1 - t;
  Stencil<S> made;
  made.weights[0] = u * u * u / 6;
  made.weights[1] = S(2) / 3 - t * t * (2 - t) / 2;
  made.weights[2] = S(2) / 3 - u * u * (2 - u) / 2;
  made.weights[3] = t * t * t / 6;
  int point = (below - 1) % kGrid;
  if (point < 0) point += kGrid;
  for (int& each : made.points) {
    each = point;
    if (++point == kGrid) point = 0;
  }
  return made;
}

// The `n` values of a table [kGrid, kGrid, n].
template <class S>
TP_FN void spline(const float* table, int n, const Stencil<S>& a, const Stencil<S>& b, S* values) {
  for (int v = 0; v < n; ++v) values[v] = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const S weight = a.weights[i] * b.weights[j];
      const float* point = table + (a.points[i] * kGrid + b.points[j]) * n;
      for (int v = 0; v < n; ++v) values[v] += weight * point[v];
    }
  }
}

// The value of a table [kGrid, kGrid, kGrid].
template <class S>
TP_FN S spline(const float* table, const Stencil<S>& a, const Stencil<S>& b, const Stencil<S>& c) {
  S value = 0;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const float* line = table + (a.points[i] * kGrid + b.points[j]) * kGrid;
      S along = 0;
      for (int k = 0; k < 4; ++k) along += c.weights[k] * line[c.points[k]];
      value += a.weights[i] * b.weights[j] * along;
    }
  }
  return value;
}

}  // namespace tmol_plugin
