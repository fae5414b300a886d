"""What crosses to the compiled library: csrc/include/tmol_plugin.h, as ctypes takes it."""

import ctypes


class Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("n_bytes", ctypes.c_int64),
    )


class Partner(ctypes.Structure):
    _fields_ = (
        ("chain", ctypes.c_char * 8),
        ("atom", ctypes.c_char * 8),
        ("number", ctypes.c_int32),
        ("insertion_code", ctypes.c_char),
    )


class Pdb(ctypes.Structure):
    _fields_ = (
        ("not_plain", ctypes.c_char_p),
        ("begin", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("n_atoms", ctypes.c_int64),
        ("segments", ctypes.c_void_p),
        ("serials", ctypes.c_void_p),
        ("n_bonds", ctypes.c_int64),
        ("bonds", ctypes.c_void_p),
        ("n_partner_pairs", ctypes.c_int64),
        ("partners", ctypes.c_void_p),
    )


class Atoms(ctypes.Structure):
    _fields_ = (
        ("n_atoms", ctypes.c_int64),
        ("atom_names", ctypes.c_void_p),
        ("residue_names", ctypes.c_void_p),
        ("chain_ids", ctypes.c_void_p),
        ("subchains", ctypes.c_void_p),
        ("segments", ctypes.c_void_p),
        ("residue_numbers", ctypes.c_void_p),
        ("insertion_codes", ctypes.c_void_p),
        ("altlocs", ctypes.c_void_p),
        ("serials", ctypes.c_void_p),
        ("expected_serials", ctypes.c_void_p),
        ("occupancies", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("n_bonds", ctypes.c_int64),
        ("bonds", ctypes.c_void_p),
        ("n_partner_pairs", ctypes.c_int64),
        ("partners", ctypes.c_void_p),
    )


# What a preparation counts, in the order of the library's enumeration.
COUNTS = (
    *("waters_dropped", "mse_as_met", "residues_renamed", "deuterium_as_hydrogen"),
    *("zero_occupancy_atoms", "residues_with_altlocs", "chain_breaks"),
    *("chain_ends_within_bonding_distance", "declared_bonds_ignored"),
    *("atoms_built", "hydrogens_unused"),
)


class Pose(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int32),
        ("reason", ctypes.c_char * 120),
        ("n_blocks", ctypes.c_int64),
        ("n_atoms", ctypes.c_int64),
        ("n_connections", ctypes.c_int64),
        ("n_disulfides", ctypes.c_int64),
        ("coords", ctypes.c_void_p),
        ("block_types", ctypes.c_void_p),
        ("block_atom_offsets", ctypes.c_void_p),
        ("connections", ctypes.c_void_p),
        ("chain_of_block", ctypes.c_void_p),
        ("first_atoms", ctypes.c_void_p),
        ("disulfides", ctypes.c_void_p),
        ("counts", ctypes.c_int64 * len(COUNTS)),
    )


class PoseStack(ctypes.Structure):
    _fields_ = (
        ("n_poses", ctypes.c_int64),
        ("coords", ctypes.c_void_p),
        ("block_types", ctypes.c_void_p),
        ("connections", ctypes.c_void_p),
        ("pose_block_offsets", ctypes.c_void_p),
        ("block_atom_offsets", ctypes.c_void_p),
        ("block_connection_offsets", ctypes.c_void_p),
    )


_CREATE = (ctypes.POINTER(Array), ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64)

# Each function of csrc/include/tmol_plugin.h: its result and its arguments.
FUNCTIONS = {
    "tp_version": (ctypes.c_char_p, ()),
    "tp_tables_create": (ctypes.c_void_p, _CREATE),
    "tp_tables_free": (None, (ctypes.c_void_p,)),
    "tp_pdb_scan": (ctypes.POINTER(Pdb), (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32)),
    "tp_pdb_free": (None, (ctypes.POINTER(Pdb),)),
    "tp_prepare": (ctypes.POINTER(Pose), (ctypes.c_void_p, ctypes.POINTER(Atoms))),
    "tp_pose_free": (None, (ctypes.POINTER(Pose),)),
    "tp_instruction_set": (ctypes.c_char_p, (ctypes.c_int32,)),
    "tp_scorer_create": (ctypes.c_void_p, (*_CREATE[:2], ctypes.c_char_p, *_CREATE[2:])),
    "tp_scorer_free": (None, (ctypes.c_void_p,)),
    "tp_score_type_name": (ctypes.c_char_p, (ctypes.c_int32,)),
    "tp_score": (
        ctypes.c_int32,
        (
            *(ctypes.c_void_p, ctypes.POINTER(PoseStack), ctypes.c_int32),
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64),
        ),
    ),
}
