// Checks the ids of torsions' atoms, and fits splines by recursive filters.
#include "cpu/torsion_tables.h"

#include <cmath>
#include <stdexcept>

namespace tmol_plugin {

std::vector<AtomId> torsion_atoms(const Arrays& arrays, const BlockTypes& types,
                                  const std::string& name, int n_torsions) {
  const size_t per_type = 4 * n_torsions;
  const auto values = arrays.get<int32_t>(name, 3 * per_type * types.n_types());
  std::vector<AtomId> ids;
  ids.reserve(values.size() / 3);
  for (size_t i = 0; i < values.size(); i += 3) {
    const AtomId id = {values[i], values[i + 1], values[i + 2]};
    const int type = int(i / 3 / per_type);
    const bool is_beyond = id.atom < 0 && id.connection >= 0;
    refuse_unless(id.atom < types.n_atoms(type), name);
    refuse_unless(!is_beyond || (id.connection < types.n_connections(type) && id.depth >= 0 &&
                                 id.depth < types.view().max_atoms),
                  name);
    ids.push_back(id);
  }
  return ids;
}

void fit_spline(std::span<double> values, size_t stride) {
  // The inverse of the B-spline's (1, 4, 1) / 6 is a filter forth and one back. Each starts at
  // some points before its first with 0: what that neglects fades as pole^n, to 1e-18 here.
  const double pole = std::sqrt(3.0) - 2;
  constexpr int kWarmUp = kGrid - 4;
  std::vector<double> last(stride);
  for (size_t start = 0; start < values.size(); start += kGrid * stride) {
    double* const table = &values[start];
    std::fill(last.begin(), last.end(), 0);
    for (int i = -kWarmUp; i < kGrid; ++i) {
      double* const row = table + (i < 0 ? i + kGrid : i) * stride;
      for (size_t v = 0; v < stride; ++v) {
        last[v] = 6 * row[v] + pole * last[v];
        if (i >= 0) row[v] = last[v];
      }
    }
    std::fill(last.begin(), last.end(), 0);
    for (int i = kGrid - 1 + kWarmUp; i >= 0; --i) {
      double* const row = table + i % kGrid * stride;
      for (size_t v = 0; v < stride; ++v) {
        last[v] = pole * (last[v] - row[v]);
        if (i < kGrid) row[v] = last[v];
      }
    }
  }
}

}  // namespace tmol_plugin
