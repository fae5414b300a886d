// Looks up the atoms that place waters, and places them.
#include "cpu/waters.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cpu/pose_atoms.h"

namespace tmol_plugin {
namespace {

// As docs/parameters.md numbers them.
enum { kSp2 = 1, kSp3 = 2, kRing = 3 };
// In the order of the parameters' metadata: see compiled_scoring.py.
enum { kWaterDist = 5, kAngleSp2, kAngleSp3, kAngleRing };

template <class T>
std::span<const T> take(const Arrays& arrays, const char* name, size_t size) {
  const std::span<const T> values = arrays.get<T>(name);
  if (values.size() != size) {
    throw std::invalid_argument(std::string("array '") + name + "' does not fit the others");
  }
  return values;
}

constexpr AtomId kNone = {-1, -1, -1};

bool is_none(AtomId id) { return id.atom < 0 && id.connection < 0; }
bool is_same(AtomId a, AtomId b) { return a.atom == b.atom && a.connection == b.connection; }

// The atoms bonded to one of a block type, in TMol's order.
class Bonds {
 public:
  Bonds(const Arrays& arrays, const BlockTypes& types)
      : types_(types),
        offset_(take<int32_t>(arrays, "atom.neighbor_offset",
                              size_t(types.atom_begin(types.n_types())) + 1)),
        atom_(take<int32_t>(arrays, "neighbor.atom", size_t(offset_.back()))),
        connection_(take<int32_t>(arrays, "neighbor.connection", size_t(offset_.back()))),
        is_hydrogen_(take<uint8_t>(arrays, "atom.is_hydrogen", offset_.size() - 1)) {}

  // The first that `wanted` takes of the atoms bonded to `atom`; kNone if there is none. Atoms
  // beyond connections are heavy.
  template <class Wanted>
  AtomId find(int type, int atom, Wanted wanted) const {
    const int row = types_.atom_begin(type) + atom;
    for (int i = offset_[row]; i < offset_[row + 1]; ++i) {
      const AtomId id = {atom_[i], atom_[i] >= 0 ? -1 : connection_[i], 0};
      const bool is_hydrogen = id.atom >= 0 && is_hydrogen_[types_.atom_begin(type) + id.atom];
      if (wanted(id, is_hydrogen)) return id;
    }
    return kNone;
  }

 private:
  const BlockTypes& types_;
  std::span<const int32_t> offset_, atom_, connection_;
  std::span<const uint8_t> is_hydrogen_;
};

}  // namespace

WaterTables::WaterTables(const Arrays& arrays, const BlockTypes& types, const PairTables& pairs) {
  const auto globals = arrays.get<double>("lj.global");
  if (globals.size() <= kAngleRing) throw std::invalid_argument("array 'lj.global' is too short");
  water_dist_ = float(globals[kWaterDist]);
  const std::pair<const char*, double> kinds[] = {{"", 0},
                                                  {"lk.water_torsions_sp2", globals[kAngleSp2]},
                                                  {"lk.water_torsions_sp3", globals[kAngleSp3]},
                                                  {"lk.water_torsions_ring", globals[kAngleRing]}};
  for (int kind : {kSp2, kSp3, kRing}) {
    for (double torsion : arrays.get<double>(kinds[kind].first)) {
      const double dist = globals[kWaterDist], angle = M_PI - kinds[kind].second;
      places_[kind].push_back({float(dist * std::cos(angle)),
                               float(dist * std::sin(angle) * std::cos(torsion)),
                               float(dist * std::sin(angle) * std::sin(torsion))});
    }
  }

  const int n_types = types.n_types();
  const auto donor_offset = take<int32_t>(arrays, "hbond.donor_offset", n_types + 1);
  const size_t n_donors = size_t(donor_offset.back());
  const auto hydrogen = take<int32_t>(arrays, "hbond.donor_hydrogen", n_donors);
  const auto heavy = take<int32_t>(arrays, "hbond.donor_heavy", n_donors);
  const auto ordinal = take<int32_t>(arrays, "hbond.donor_ordinal", n_donors);
  const auto acceptor_offset = take<int32_t>(arrays, "hbond.acceptor_offset", n_types + 1);
  const size_t n_acceptors = size_t(acceptor_offset.back());
  const auto acceptor = take<int32_t>(arrays, "hbond.acceptor_atom", n_acceptors);
  const auto hybridization = take<int32_t>(arrays, "hbond.acceptor_hybridization", n_acceptors);
  const auto n_hydrogens = take<int32_t>(arrays, "hbond.acceptor_hydrogens", n_acceptors);
  const Bonds bonds(arrays, types);
  for (int t = 0; t < n_types; ++t) {
    const auto place = [&](int atom) {
      if (atom < 0 || atom >= types.n_atoms(t)) {
        throw std::invalid_argument("arrays 'hbond.*' refer beyond a block type");
      }
      const auto own = pairs.order.begin() + types.atom_begin(t);
      return int(std::find(own, own + types.n_atoms(t), atom) - own);
    };
    donor_offset_.push_back(int(donors_.size()));
    for (int d = donor_offset[t]; d < donor_offset[t + 1]; ++d) {
      place(hydrogen[d]);
      if (ordinal[d] < kMaxWaters) {
        donors_.push_back({heavy[d], hydrogen[d], place(heavy[d]), ordinal[d]});
      }
    }
    acceptor_offset_.push_back(int(acceptors_.size()));
    for (int a = acceptor_offset[t]; a < acceptor_offset[t + 1]; ++a) {
      const int atom = acceptor[a], kind = hybridization[a];
      const int at = place(atom);
      if (kind < kSp2 || kind > kRing) continue;
      const AtomId base = bonds.find(t, atom, [](AtomId, bool is_h) { return !is_h; });
      // A base beyond a connection has none beyond it here: no amino acid accepts with an atom
      // that is bonded to another block first.
      if (base.atom < 0) continue;
      AtomId second = kNone;
      if (kind == kSp2) {
        second = bonds.find(t, base.atom, [&](AtomId id, bool) { return id.atom != atom; });
      } else {
        const auto is_other = [&](AtomId id) { return !is_same(id, base); };
        second = bonds.find(
            t, atom, [&](AtomId id, bool is_h) { return is_other(id) && is_h == (kind == kSp3); });
        if (kind == kSp3 && is_none(second)) {
          second = bonds.find(t, atom, [&](AtomId id, bool) { return is_other(id); });
        }
      }
      if (is_none(second)) continue;
      const int n_waters =
          std::min(int(places_[kind].size()), std::max(0, kMaxWaters - n_hydrogens[a]));
      acceptors_.push_back({atom, base, second, kind == kRing, at, n_hydrogens[a], n_waters, kind});
    }
  }
  donor_offset_.push_back(int(donors_.size()));
  acceptor_offset_.push_back(int(acceptors_.size()));
}

Waters::Waters(const WaterTables& tables, const BlockTypes& types, const PoseView& pose,
               PoseAtoms& atoms)
    : rows_(std::make_unique_for_overwrite<float[]>(atoms.rows.size() * kMaxWaters * 4)) {
  for (int block = 0; block < pose.n_blocks; ++block) {
    const int type = pose.block_types[block], first = pose.atom_offsets[block];
    const auto slot = [&](int place, int water) {
      const int atom = atoms.begin[block] + place;
      float* const row = rows_.get() + 4 * kMaxWaters * atom;
      if (!atoms.rows[atom].has_waters) {
        atoms.rows[atom].has_waters = 1;
        std::fill_n(row, 4 * kMaxWaters, kNoWater);
      }
      return row + 4 * water;
    };
    const auto put = [](Vec3<float> water, float* row) {
      row[0] = water.x;
      row[1] = water.y;
      row[2] = water.z;
    };
    for (int d = tables.donor_offset_[type]; d < tables.donor_offset_[type + 1]; ++d) {
      const auto& donor = tables.donors_[d];
      put(donor_water(pose.position(first + donor.heavy), pose.position(first + donor.hydrogen),
                      tables.water_dist_),
          slot(donor.place, donor.slot));
    }
    for (int a = tables.acceptor_offset_[type]; a < tables.acceptor_offset_[type + 1]; ++a) {
      const auto& acceptor = tables.acceptors_[a];
      const int second = find_atom(types.view(), pose, block, acceptor.second_base);
      if (second < 0) continue;
      const Vec3<float> far = pose.position(second);
      Vec3<float> base = pose.position(first + acceptor.base.atom);
      if (acceptor.is_ring) base = 0.5f * (base + far);
      for (int w = 0; w < acceptor.n_waters; ++w) {
        Vec3<float> water;
        if (acceptor_water(pose.position(first + acceptor.atom), base, far,
                           tables.places_[acceptor.hybridization][w], &water)) {
          put(water, slot(acceptor.place, acceptor.slot + w));
        }
      }
    }
  }
}

}  // namespace tmol_plugin
