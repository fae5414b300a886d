// Looks up the parameters of bonded geometry, as TMol's score/cartbonded does.
#include "cpu/cart_tables.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

namespace tmol_plugin {
namespace {

using Ids = std::array<int32_t, 4>;

// The rows of cart.parameter_*.
class Parameters {
 public:
  explicit Parameters(const Arrays& arrays)
      : kinds_(arrays.get<uint8_t>("cart.parameter_type")),
        values_(arrays.get<float>("cart.parameter_values")) {
    refuse_unless(values_.size() == 6 * kinds_.size(), "cart.parameter_values");
    for (const uint8_t kind : kinds_) refuse_unless(kind < kCartKinds, "cart.parameter_type");
  }

  // `name`: of the array that `parameter` and its atoms are from.
  CartRow row(int parameter, const Ids& atoms, const char* name) const {
    refuse_unless(parameter >= 0 && size_t(parameter) < kinds_.size(), name);
    CartRow row = {kinds_[parameter], atoms, {}};
    const int n_atoms = std::min(row.kind, 2) + 2;
    for (int i = 0; i < 4; ++i) refuse_unless(i < n_atoms ? atoms[i] >= 0 : atoms[i] == -1, name);
    std::copy_n(values_.begin() + 6 * parameter, 6, row.values.begin());
    return row;
  }

 private:
  std::span<const uint8_t> kinds_;
  std::span<const float> values_;
};

// What keys can tell of the last atom of a path into a block.
struct PathEnd {
  std::array<int32_t, 3> ids;  // unique, wildcard, cross
  bool is_rosetta;
  int before;  // the path without this atom

  auto operator<=>(const PathEnd&) const = default;
};
using Paths = std::array<std::optional<PathEnd>, kPaths>;

// The ends of path p, from the connection on.
std::vector<int> along(const Paths& paths, int p) {
  if (p == 0) return {0};
  std::vector<int> ends = along(paths, paths[p]->before);
  ends.push_back(p);
  return ends;
}

enum Side { kNear, kFar };

// Looks paths and impropers across a connection up: the near block's atoms by unique id, else all
// of them by wildcard id; the far one's by cross id.
class Lookup {
 public:
  explicit Lookup(const Arrays& arrays) : parameters_(arrays) {
    const auto keys = arrays.get<int32_t>("cart.connection_key");
    const auto rows = arrays.get<int32_t>("cart.connection_parameter");
    refuse_unless(keys.size() == 4 * rows.size(), "cart.connection_key");
    for (size_t i = 0; i < rows.size(); ++i) {
      const Ids key = {keys[4 * i], keys[4 * i + 1], keys[4 * i + 2], keys[4 * i + 3]};
      parameters_.row(rows[i], key, "cart.connection_key");
      row_of_key_.emplace(key, rows[i]);
    }
  }

  // All rows from the side of `near`; `first` is the side whose ends are named from 0.
  void cross(const Paths& near, const Paths& far, Side first, std::vector<CartRow>& rows) const {
    const Sides sides = {&near, &far};
    for (int p = 0; p < kPaths; ++p) {
      for (int q = 0; q < kPaths; ++q) {
        if (!near[p] || !far[q]) continue;
        std::vector<Atom> path;
        for (const int end : along(near, p)) path.insert(path.begin(), {kNear, end});
        for (const int end : along(far, q)) path.push_back({kFar, end});
        if (path.size() > 4) continue;
        // TMol's genbonded, which beta_nov2016 is without, has the other torsions.
        if (path.size() == 4 && !(is_rosetta(sides, path[1]) && is_rosetta(sides, path[2]))) {
          continue;
        }
        find(sides, path, first, rows);
      }
    }
    std::vector<Atom> around;
    for (int p = 1; p <= 3; ++p) {
      if (near[p]) around.push_back({kNear, p});
    }
    if (around.size() != 2 || !near[0]->is_rosetta) return;
    around.push_back({kFar, 0});
    // The third atom is the center of an improper; of several keys, each counts.
    std::sort(around.begin(), around.end());
    do {
      find(sides, {around[0], around[1], {kNear, 0}, around[2]}, first, rows);
    } while (std::next_permutation(around.begin(), around.end()));
  }

 private:
  using Atom = std::pair<Side, int>;
  using Sides = std::array<const Paths*, 2>;

  static const PathEnd& end(const Sides& sides, Atom atom) {
    return *(*sides[atom.first])[atom.second];
  }

  static bool is_rosetta(const Sides& sides, Atom atom) { return end(sides, atom).is_rosetta; }

  void find(const Sides& sides, const std::vector<Atom>& atoms, Side first,
            std::vector<CartRow>& rows) const {
    for (const int near_ids : {0, 1}) {
      Ids key = {-1, -1, -1, -1}, ends = key;
      for (size_t i = 0; i < atoms.size(); ++i) {
        key[i] = end(sides, atoms[i]).ids[atoms[i].first == kNear ? near_ids : 2];
        ends[i] = atoms[i].second + (atoms[i].first == first ? 0 : kPaths);
      }
      const auto found = row_of_key_.find(key);
      if (found != row_of_key_.end()) {
        rows.push_back(parameters_.row(found->second, ends, "cart.connection_parameter"));
        return;
      }
    }
  }

  Parameters parameters_;
  std::map<Ids, int32_t> row_of_key_;
};

}  // namespace

std::vector<std::vector<CartRow>> rows_of_block_types(const Arrays& arrays,
                                                      const BlockTypes& types) {
  const auto offset = arrays.get<int32_t>("cart.offset");
  const auto atoms = arrays.get<int32_t>("cart.atoms");
  const auto parameter = arrays.get<int32_t>("cart.parameter");
  refuse_unless(offset.size() == size_t(types.n_types()) + 1 && offset[0] == 0 &&
                    std::is_sorted(offset.begin(), offset.end()) &&
                    size_t(offset.back()) == parameter.size(),
                "cart.offset");
  refuse_unless(atoms.size() == 4 * parameter.size(), "cart.atoms");
  const Parameters parameters(arrays);
  std::vector<std::vector<CartRow>> rows(types.n_types());
  for (int t = 0; t < types.n_types(); ++t) {
    for (int i = offset[t]; i < offset[t + 1]; ++i) {
      const Ids row = {atoms[4 * i], atoms[4 * i + 1], atoms[4 * i + 2], atoms[4 * i + 3]};
      for (const int32_t atom : row) {
        refuse_unless(atom >= -1 && atom < types.n_atoms(t), "cart.atoms");
      }
      rows[t].push_back(parameters.row(parameter[i], row, "cart.parameter"));
    }
  }
  return rows;
}

CartCrossings rows_of_crossings(const Arrays& arrays, const BlockTypes& types) {
  const auto paths = arrays.get<int32_t>("connection.paths");
  const auto atom_type = arrays.get<int32_t>("atom.type");
  const auto is_rosetta = arrays.get<uint8_t>("atom_type.is_rosetta");
  std::array<std::span<const int32_t>, 3> ids;
  const char* const names[] = {"cart.unique_id", "cart.wildcard_id", "cart.cross_id"};
  const size_t n_atoms = types.atom_begin(types.n_types());
  for (int i = 0; i < 3; ++i) {
    ids[i] = arrays.get<int32_t>(names[i]);
    refuse_unless(ids[i].size() == n_atoms, names[i]);
  }
  refuse_unless(atom_type.size() == n_atoms, "atom.type");
  for (const int32_t type : atom_type) {
    refuse_unless(type >= 0 && size_t(type) < is_rosetta.size(), "atom.type");
  }
  const size_t n_connections = types.connection_begin(types.n_types());
  refuse_unless(paths.size() == n_connections * kPaths * 3, "connection.paths");

  CartCrossings found = {};
  std::map<Paths, int> classes;
  std::vector<const Paths*> members;
  for (int t = 0; t < types.n_types(); ++t) {
    for (int c = 0; c < types.n_connections(t); ++c) {
      const int32_t* row = &paths[(types.connection_begin(t) + c) * kPaths * 3];
      Paths seen;
      for (int p = 0; p < kPaths; ++p, row += 3) {
        const int last = p == 0 ? 0 : p <= 3 ? 1 : 2;
        found.path_ends.push_back(row[last]);
        if (row[0] < 0) continue;
        for (int i = 0; i < 3; ++i) {
          refuse_unless(i <= last ? row[i] >= 0 && row[i] < types.n_atoms(t) : row[i] == -1,
                        "connection.paths");
        }
        // Paths of three atoms extend one of paths 1 to 3.
        int before = 0;
        if (last == 2) {
          const auto ends = found.path_ends.end() - 1 - p;
          before = int(std::find(ends + 1, ends + 4, row[1]) - ends);
          refuse_unless(before <= 3, "connection.paths");
        }
        const int atom = types.atom_begin(t) + row[last];
        seen[p] = {
            {ids[0][atom], ids[1][atom], ids[2][atom]}, is_rosetta[atom_type[atom]] != 0, before};
      }
      refuse_unless(seen[0].has_value(), "connection.paths");
      const auto [at, is_new] = classes.emplace(seen, int(classes.size()));
      if (is_new) members.push_back(&at->first);
      found.connection_class.push_back(at->second);
    }
  }
  found.n_classes = int(members.size());
  const Lookup lookup(arrays);
  for (const Paths* first : members) {
    for (const Paths* second : members) {
      std::vector<CartRow> rows;
      lookup.cross(*first, *second, kNear, rows);
      lookup.cross(*second, *first, kFar, rows);
      found.crossings.push_back(rows.empty() ? -1 : int(found.rows.size()));
      if (!rows.empty()) found.rows.push_back(std::move(rows));
    }
  }
  return found;
}

}  // namespace tmol_plugin
