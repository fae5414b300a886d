// The functions of the C ABI: plain arguments in, exceptions turned into messages.
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>

#include "cpu/score.h"
#include "prepare/build.h"
#include "prepare/pdb_scan.h"

struct tp_tables {
  tmol_plugin::Tables tables;
};

struct tp_scorer {
  tmol_plugin::Scorer scorer;
};

namespace {

// The result of `call`; where it throws, its words in `error` and a result of zero.
template <class Call>
auto guarded(char* error, int64_t error_size, Call call) noexcept -> decltype(call()) {
  const auto report = [&](const char* words) {
    if (error != nullptr && error_size > 0) {
      std::snprintf(error, static_cast<std::size_t>(error_size), "%s", words);
    }
  };
  try {
    return call();
  } catch (const std::bad_alloc&) {
    report("out of memory");
  } catch (const std::exception& thrown) {
    report(thrown.what());
  } catch (...) {
    report("unknown C++ exception");
  }
  return {};
}

tmol_plugin::Arrays given_arrays(const tp_array* arrays, int32_t n_arrays) {
  if (n_arrays < 0 || (arrays == nullptr && n_arrays > 0)) {
    throw std::invalid_argument("no arrays are given");
  }
  return tmol_plugin::Arrays(std::span(arrays, static_cast<std::size_t>(n_arrays)));
}

// A tp_pdb together with what its pointers refer to.
struct ScannedPdb {
  tp_pdb out{};
  tmol_plugin::PdbScan scan;
};

struct PreparedPose {
  tp_pose out{};
  tmol_plugin::Built built;
  std::vector<int32_t> block_types, connections, chain_of_block, first_atoms, disulfides;
};

void prepare(const tmol_plugin::Tables& tables, const tp_atoms& atoms, PreparedPose& pose) {
  tmol_plugin::Residues residues = tmol_plugin::read_residues(tables, atoms);
  tmol_plugin::Typing typing = tmol_plugin::assign_block_types(tables, residues);
  pose.built = tmol_plugin::build_coordinates(tables, residues, typing);
  residues.counts[TP_ATOMS_BUILT] = pose.built.n_atoms_built;
  for (size_t b = 0; b < typing.blocks.size(); ++b) {
    pose.block_types.push_back(typing.blocks[b].type);
    pose.chain_of_block.push_back(typing.blocks[b].chain);
    pose.first_atoms.push_back(residues.residues[b].first_atom);
  }
  for (const tmol_plugin::Connection& one : typing.connections) {
    pose.connections.push_back(one.block);
    pose.connections.push_back(one.connection);
  }
  for (auto [first, second] : typing.disulfides) {
    pose.disulfides.push_back(first);
    pose.disulfides.push_back(second);
  }
  tp_pose& out = pose.out;
  out.n_blocks = int64_t(pose.block_types.size());
  out.n_atoms = pose.built.block_atom_offsets.back();
  out.n_connections = int64_t(typing.connections.size());
  out.n_disulfides = int64_t(typing.disulfides.size());
  out.coords = pose.built.coords.data();
  out.block_types = pose.block_types.data();
  out.block_atom_offsets = pose.built.block_atom_offsets.data();
  out.connections = pose.connections.data();
  out.chain_of_block = pose.chain_of_block.data();
  out.first_atoms = pose.first_atoms.data();
  out.disulfides = pose.disulfides.data();
  std::copy(residues.counts.begin(), residues.counts.end(), out.counts);
}

}  // namespace

const char* tp_version(void) { return TMOL_PLUGIN_VERSION; }

tp_tables* tp_tables_create(const tp_array* arrays, int32_t n_arrays, char* error,
                            int64_t error_size) {
  return guarded(error, error_size, [&] {
    return new tp_tables{tmol_plugin::Tables(given_arrays(arrays, n_arrays))};
  });
}

void tp_tables_free(tp_tables* tables) { delete tables; }

tp_pdb* tp_pdb_scan(const char* text, int64_t size, int32_t model) {
  try {
    auto pdb = std::make_unique<ScannedPdb>();
    pdb->scan = tmol_plugin::scan_pdb({text, size_t(size)}, model);
    tmol_plugin::PdbScan& scan = pdb->scan;
    pdb->out = {scan.not_plain,
                int64_t(scan.begin),
                int64_t(scan.end),
                int64_t(scan.segments.size()),
                scan.segments.data(),
                scan.serials.data(),
                int64_t(scan.bonds.size() / 2),
                scan.bonds.data(),
                int64_t(scan.partners.size() / 2),
                scan.partners.data()};
    return &pdb.release()->out;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// `out` is the first member, so its address is that of the whole.
void tp_pdb_free(tp_pdb* pdb) { delete reinterpret_cast<ScannedPdb*>(pdb); }

tp_pose* tp_prepare(const tp_tables* tables, const tp_atoms* atoms) {
  try {
    auto pose = std::make_unique<PreparedPose>();
    try {
      prepare(tables->tables, *atoms, *pose);
    } catch (const tmol_plugin::Stop& stop) {
      pose->out.status = stop.status;
      std::snprintf(pose->out.reason, sizeof pose->out.reason, "%s", stop.reason);
    }
    return &pose.release()->out;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void tp_pose_free(tp_pose* pose) { delete reinterpret_cast<PreparedPose*>(pose); }

const char* tp_instruction_set(int32_t index) {
  const auto known = tmol_plugin::instruction_sets();
  return index < 0 || size_t(index) >= known.size() ? nullptr : known[size_t(index)];
}

tp_scorer* tp_scorer_create(const tp_array* arrays, int32_t n_arrays, const char* instruction_set,
                            char* error, int64_t error_size) {
  return guarded(error, error_size, [&] {
    const char* const chosen = instruction_set ? instruction_set : tp_instruction_set(0);
    return new tp_scorer{tmol_plugin::Scorer(given_arrays(arrays, n_arrays), chosen)};
  });
}

void tp_scorer_free(tp_scorer* scorer) { delete scorer; }

const char* tp_score_type_name(int32_t score_type) {
  static constexpr const char* kNames[] = {"fa_ljatr",
                                           "fa_ljrep",
                                           "fa_lk",
                                           "fa_elec",
                                           "hbond",
                                           "cart_lengths",
                                           "cart_angles",
                                           "cart_torsions",
                                           "cart_impropers",
                                           "cart_hxltorsions",
                                           "disulfide",
                                           "rama",
                                           "omega",
                                           "dunbrack_rot",
                                           "dunbrack_rotdev",
                                           "dunbrack_semirot",
                                           "lk_ball_iso",
                                           "lk_ball",
                                           "lk_bridge",
                                           "lk_bridge_uncpl",
                                           "ref"};
  static_assert(std::size(kNames) == tmol_plugin::kNScoreTypes);
  return score_type < 0 || score_type >= tmol_plugin::kNScoreTypes ? nullptr : kNames[score_type];
}

int32_t tp_score(const tp_scorer* scorer, const tp_pose_stack* stack, int32_t n_threads,
                 double* energies, double* block_energies, char* error, int64_t error_size) {
  return guarded(error, error_size,
                 [&] {
                   scorer->scorer.score(*stack, n_threads, energies, block_energies);
                   return true;
                 })
             ? 0
             : 1;
}
