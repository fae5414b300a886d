/* The C ABI of the native library: all that crosses between Python and C++.
 *
 * Callers check types and shapes of what they pass (tmol_plugin/native.py does). A function
 * that can fail takes `error`, a buffer of `error_size` bytes for a message ending in NUL,
 * and says by its result that it failed. No C++ exception leaves a function.
 */
#ifndef TMOL_PLUGIN_H_
#define TMOL_PLUGIN_H_

#include <stdint.h>

#define TP_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* An array by name. Its elements' type follows from the name. */
typedef struct {
  const char* name;
  const void* data;
  int64_t n_bytes;
} tp_array;

/* The version of the package that the library was built from. */
TP_EXPORT const char* tp_version(void);

/* The compiled chemistry. */
typedef struct tp_tables tp_tables;

/* Tables that hold copies of what they need from `arrays`; NULL on failure. */
TP_EXPORT tp_tables* tp_tables_create(const tp_array* arrays, int32_t n_arrays, char* error,
                                      int64_t error_size);

/* NULL is ignored. */
TP_EXPORT void tp_tables_free(tp_tables* tables);

/* One end of a bond that a file declares by names. */
typedef struct {
  char chain[8];
  char atom[8];
  int32_t number;
  char insertion_code; /* ' ' if none */
} tp_partner;

/* What the lines of a PDB file say before its numbers are parsed. */
typedef struct {
  /* NULL if the lines of the wanted model are plain: a parser that goes by chain and number
     reads them as they are meant. Else what is not. */
  const char* not_plain;
  int64_t begin, end; /* bytes of the model's lines */
  int64_t n_atoms;
  const int32_t* segments;    /* [n_atoms] counts chains, by TER and changes of the chain */
  const int32_t* serials;     /* [n_atoms], each another */
  int64_t n_bonds;            /* CONECT, as listed */
  const int32_t* bonds;       /* [n_bonds, 2] atoms */
  int64_t n_partner_pairs;    /* SSBOND and LINK within one asymmetric unit */
  const tp_partner* partners; /* [n_partner_pairs, 2] */
} tp_pdb;

/* NULL if memory ran out. `model` is the number of the model, counted as the file does. */
TP_EXPORT tp_pdb* tp_pdb_scan(const char* text, int64_t size, int32_t model);
TP_EXPORT void tp_pdb_free(tp_pdb* pdb);

/* The atoms of one model in file order. Names are 8 bytes, NUL padded. */
typedef struct {
  int64_t n_atoms;
  const char* atom_names;    /* [n_atoms, 8] */
  const char* residue_names; /* [n_atoms, 8] */
  const char* chain_ids;     /* [n_atoms, 8] */
  const char* subchains;     /* [n_atoms, 8], or NULL: segments are given */
  const int32_t* segments;   /* [n_atoms], or NULL: they change with chain_ids and subchains */
  const int32_t* residue_numbers;
  const char* insertion_codes;     /* ' ' if none */
  const char* altlocs;             /* NUL if none */
  const int32_t* serials;          /* NULL if the order is that of the file */
  const int32_t* expected_serials; /* those of the file in its order; NULL: they increase */
  const float* occupancies;
  const double* positions; /* [n_atoms, 3] angstrom */
  int64_t n_bonds;
  const int32_t* bonds; /* [n_bonds, 2] atoms */
  int64_t n_partner_pairs;
  const tp_partner* partners; /* [n_partner_pairs, 2] */
} tp_atoms;

enum {
  TP_POSE = 0,
  TP_NOT_PLAIN = 1,   /* needs the careful reader, or fails: it can tell */
  TP_NOT_COVERED = 2, /* sound, as far as seen, but its chemistry is not prepared here */
};

enum {
  TP_WATERS_DROPPED,
  TP_MSE_AS_MET,
  TP_RESIDUES_RENAMED,
  TP_DEUTERIUM_AS_HYDROGEN,
  TP_ZERO_OCCUPANCY_ATOMS,
  TP_RESIDUES_WITH_ALTLOCS,
  TP_CHAIN_BREAKS,
  TP_CHAIN_ENDS_WITHIN_BONDING_DISTANCE,
  TP_DECLARED_BONDS_IGNORED,
  TP_ATOMS_BUILT,
  TP_HYDROGENS_UNUSED,
  TP_N_COUNTS,
};

typedef struct {
  int32_t status;
  char reason[120]; /* if it is no pose */
  int64_t n_blocks, n_atoms, n_connections, n_disulfides;
  const float* coords;               /* [n_atoms, 3] angstrom */
  const int32_t* block_types;        /* [n_blocks] */
  const int32_t* block_atom_offsets; /* [n_blocks + 1] */
  const int32_t* connections;        /* [n_connections, 2] partner block, its connection; -1 */
  const int32_t* chain_of_block;     /* [n_blocks] */
  const int32_t* first_atoms;        /* [n_blocks] the residue's first atom in the input */
  const int32_t* disulfides;         /* [n_disulfides, 2] blocks */
  int64_t counts[TP_N_COUNTS];
} tp_pose;

/* NULL if memory ran out. */
TP_EXPORT tp_pose* tp_prepare(const tp_tables* tables, const tp_atoms* atoms);
TP_EXPORT void tp_pose_free(tp_pose* pose);

/* The energy function of compiled parameters. */
typedef struct tp_scorer tp_scorer;

/* The name of an instruction set that the library is built for and this processor runs, the
   best one first; NULL beyond the last. Each gives other last bits. */
TP_EXPORT const char* tp_instruction_set(int32_t index);

/* A scorer that holds copies of what it needs from `arrays`; NULL on failure. It runs on the
   best instruction set if `instruction_set` is NULL. */
TP_EXPORT tp_scorer* tp_scorer_create(const tp_array* arrays, int32_t n_arrays,
                                      const char* instruction_set, char* error, int64_t error_size);

/* NULL is ignored. */
TP_EXPORT void tp_scorer_free(tp_scorer* scorer);

/* Poses end to end; see tmol_plugin.pose.PoseStack. */
typedef struct {
  int64_t n_poses;
  const float* coords;                     /* [n_atoms, 3] angstrom, finite */
  const int32_t* block_types;              /* [n_blocks] */
  const int32_t* connections;              /* [n_connections, 2] block of the pose; -1 */
  const int32_t* pose_block_offsets;       /* [n_poses + 1] */
  const int32_t* block_atom_offsets;       /* [n_blocks + 1] */
  const int32_t* block_connection_offsets; /* [n_blocks + 1] */
} tp_pose_stack;

/* The name of a score type, counted from 0; NULL beyond the last. */
TP_EXPORT const char* tp_score_type_name(int32_t score_type);

/* Unweighted energies of each pose, [n_score_types, n_poses], and of each block where
   `block_energies`, [n_score_types, n_blocks], is not NULL: a pair's energy is halved between
   its blocks. The same bits for any number of threads. Returns 0; on failure 1. */
TP_EXPORT int32_t tp_score(const tp_scorer* scorer, const tp_pose_stack* stack, int32_t n_threads,
                           double* energies, double* block_energies, char* error,
                           int64_t error_size);

#ifdef __cplusplus
}
#endif

#endif
