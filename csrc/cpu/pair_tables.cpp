// Derives the tables of atom pairs from the compiled parameters, in double precision.
#include "cpu/pair_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "cpu/kernels.h"

namespace tmol_plugin {
namespace {

// Coefficients, constant first, of the polynomial through a function at the Chebyshev nodes of
// -1 to 1, which is close to the best of its degree.
template <int degree, class Function>
std::array<double, degree + 1> fit_polynomial(Function function) {
  constexpr int n = degree + 1;
  std::array<double, n> series{}, sum{}, before{}, chebyshev{};
  for (int k = 0; k < n; ++k) {
    for (int node = 0; node < n; ++node) {
      const double angle = M_PI * (node + 0.5) / n;
      series[k] += (k ? 2.0 : 1.0) / n * function(std::cos(angle)) * std::cos(k * angle);
    }
  }
  // T(0) = 1, T(1) = x, T(k + 1) = 2 x T(k) - T(k - 1).
  chebyshev[0] = 1;
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i < n; ++i) sum[i] += series[k] * chebyshev[i];
    std::array<double, n> next{};
    for (int i = 0; i < n; ++i) {
      next[i] = (i ? (k ? 2 : 1) * chebyshev[i - 1] : 0) - before[i];
    }
    before = chebyshev;
    chebyshev = next;
  }
  return sum;
}

// In the order of the parameters' metadata: see compiled_scoring.py.
enum { kMaxDis, kHBondDis, kHBondOHDis, kHBondHDis, kDlinFactor = 9, kNLJGlobals };

constexpr double kCoulomb = 322.0637;  // angstrom * energy / charge^2

ElecGlobals elec_globals(std::span<const double> values) {
  const double min_dis = values[0], max_dis = values[1], d = values[2], d0 = values[3],
               s = values[4];
  const auto dielectric = [=](double r) {
    return d - 0.5 * (d - d0) * (2 + 2 * r * s + r * r * s * s) * std::exp(-r * s);
  };
  const double offset = kCoulomb / (max_dis * dielectric(max_dis));
  const auto energy = [=](double r) { return kCoulomb / (r * dielectric(r)) - offset; };
  const auto slope = [=](double r) {
    const double growth = 0.5 * (d - d0) * r * r * s * s * s * std::exp(-r * s);
    const double e = dielectric(r);
    return -kCoulomb * (e + r * growth) / (r * r * e * e);
  };
  const double low = min_dis + kElecLowHalfWidth, high = max_dis - kElecHighWidth;
  ElecGlobals globals = {float(min_dis),         float(max_dis),     {},
                         float(energy(min_dis)), float(energy(low)), float(slope(low)),
                         float(energy(high)),    float(slope(high))};
  const auto scaled = [=](double x) { return energy((high + low) / 2 + x * (high - low) / 2); };
  const auto fitted = fit_polynomial<ElecGlobals::kDegree>(scaled);
  std::copy(fitted.begin(), fitted.end(), globals.coefficients);
  return globals;
}

}  // namespace

PairTables::PairTables(const Arrays& arrays, const BlockTypes& types) {
  const auto globals = arrays.get<double>("lj.global", kNLJGlobals);
  lj = {float(globals[kMaxDis]), float(globals[kDlinFactor])};
  elec = elec_globals(arrays.get<double>("elec.global", 5));

  const auto radius = arrays.get<float>("lj.radius");
  const size_t n = radius.size();
  n_atom_types = int(n);
  const auto depth = arrays.get<float>("lj.well_depth", n);
  const auto free_energy = arrays.get<float>("lk.free_energy", n);
  const auto lambda = arrays.get<float>("lk.lambda", n);
  const auto volumes = arrays.get<float>("lk.volume", n);
  const auto is_donor = arrays.get<uint8_t>("atom_type.is_donor", n);
  const auto is_acceptor = arrays.get<uint8_t>("atom_type.is_acceptor", n);
  const auto is_hydroxyl = arrays.get<uint8_t>("atom_type.is_hydroxyl", n);
  const auto is_polar_hydrogen = arrays.get<uint8_t>("atom_type.is_polar_hydrogen", n);
  const auto is_carbon = arrays.get<uint8_t>("atom_type.is_carbon_lk", n);
  const auto is_hydrogen = arrays.get<uint8_t>("atom_type.is_hydrogen", n);

  const double fade_start = globals[kMaxDis] - kFadeWidth;
  const auto coefficient = [&](size_t i) {
    return -free_energy[i] / (2 * std::pow(M_PI, 1.5) * lambda[i]);
  };
  const auto analytic = [&](size_t i, double dist) {
    const double beyond = (dist - radius[i]) / lambda[i];
    return coefficient(i) / (dist * dist) * std::exp(-beyond * beyond);
  };
  const auto analytic_slope = [&](size_t i, double dist) {
    return analytic(i, dist) *
           (-2 / dist - 2 * (dist - radius[i]) / (double(lambda[i]) * lambda[i]));
  };
  for (size_t i = 0; i < n; ++i) {
    lk_types.push_back({volumes[i],
                        radius[i],
                        float(coefficient(i)),
                        1 / (lambda[i] * lambda[i]),
                        float(analytic(i, fade_start)),
                        float(analytic_slope(i, fade_start) * kFadeWidth),
                        {}});
  }
  is_polar.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      // Hydrogen bonds are shorter than the radii say; as TMol's lj_sigma.
      const bool bonds = (is_donor[i] && is_acceptor[j]) || (is_donor[j] && is_acceptor[i]);
      const bool hydroxyl = (is_donor[i] && is_hydroxyl[i]) || (is_donor[j] && is_hydroxyl[j]);
      const bool hydrogen_bonds =
          (is_polar_hydrogen[i] && is_acceptor[j]) || (is_polar_hydrogen[j] && is_acceptor[i]);
      sigma.push_back(bonds            ? float(globals[hydroxyl ? kHBondOHDis : kHBondDis])
                      : hydrogen_bonds ? float(globals[kHBondHDis])
                                       : radius[i] + radius[j]);
      if (bonds || hydrogen_bonds) is_polar[i] = 1;
      // In float, as TMol has it: `floor` decides which bin of a twentieth of a square angstrom
      // the cubic is centred on.
      float flat_end = float(double(sigma.back()) * 0.89);
      if (is_carbon[i] && is_carbon[j]) flat_end = std::max(flat_end, 4.2f);
      const float bin = std::floor(20.0f * flat_end * flat_end);
      const float plateau_end = std::sqrt(std::max(0.0f, bin - 29) / 20);
      const float analytic_start = std::sqrt(std::min(bin + 21, 405.0f) / 20);
      const auto direction = [&](size_t of, size_t by) {
        return LKPair::Direction{float(volumes[by] * analytic(of, flat_end)),
                                 float(volumes[by] * analytic(of, analytic_start)),
                                 float(volumes[by] * analytic_slope(of, analytic_start))};
      };
      lk_pairs.push_back({plateau_end, analytic_start, direction(i, j), direction(j, i)});
    }
  }

  const int n_types = types.n_types();
  const size_t n_atoms = size_t(types.atom_begin(n_types));
  const auto type_of = arrays.get<int32_t>("atom.type", n_atoms);
  const auto charges = arrays.get<float>("elec.charge", n_atoms);
  const auto representative = arrays.get<int32_t>("elec.representative", n_atoms);
  for (size_t a = 0; a < n_atoms; ++a) {
    if (type_of[a] < 0 || type_of[a] >= n_atom_types) {
      throw std::invalid_argument("array 'atom.type' refers beyond the atom types");
    }
  }
  for (int t = 0; t < n_types; ++t) {
    const int begin = types.atom_begin(t), count = types.n_atoms(t);
    const auto is_heavy = [&](int a) { return !is_hydrogen[type_of[begin + a]]; };
    std::vector<int> own(count);
    for (int a = 0; a < count; ++a) {
      own[a] = a;
      if (representative[begin + a] < 0 || representative[begin + a] >= count) {
        throw std::invalid_argument("array 'elec.representative' refers beyond its block type");
      }
    }
    const auto middle = std::stable_partition(own.begin(), own.end(), is_heavy);
    first_atom.push_back(begin);
    n_heavy.push_back(int(middle - own.begin()));
    place.resize(place.size() + count);
    for (int i = 0; i < count; ++i) place[begin + own[i]] = i;
    for (int a : own) {
      order.push_back(a);
      const int kind = type_of[begin + a];
      atoms.push_back({kind, radius[kind], std::sqrt(depth[kind]), charges[begin + a], 0, 0, 0, 0});
    }
    code_offset.push_back(int64_t(codes.size()));
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        const auto code = [&](int a, int b) { return bond_code(types.path(t, a, b)); };
        const int a = own[i], b = own[j];
        const int elec = code(representative[begin + a], representative[begin + b]);
        codes.push_back(j > i ? uint8_t(code(a, b) | elec << kElecCodeShift) : kNoCode);
      }
    }
    for (int c = 0; c < types.n_connections(t); ++c) {
      lj_near.emplace_back();
      elec_near.emplace_back();
      const int atom = types.connection_atom(t, c);
      for (int i = 0; i < count; ++i) {
        const int lj_bonds = types.path(t, atom, own[i]);
        const int elec_bonds = types.path(t, atom, representative[begin + own[i]]);
        if (lj_bonds < kFarBonds) lj_near.back().push_back({i, lj_bonds});
        if (elec_bonds < kFarBonds) elec_near.back().push_back({i, elec_bonds});
      }
      const auto is_closer = [](const NearAtom& a, const NearAtom& b) {
        return a.n_bonds < b.n_bonds;
      };
      for (auto* near : {&lj_near.back(), &elec_near.back()}) {
        std::stable_sort(near->begin(), near->end(), is_closer);
      }
    }
  }
}

}  // namespace tmol_plugin
