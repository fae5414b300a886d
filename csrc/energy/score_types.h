// The score types, in the order of the tables (tmol_plugin.tables.SCORE_TYPES).
#pragma once

namespace tmol_plugin {

enum ScoreType : int {
  kFaLJAtr,
  kFaLJRep,
  kFaLK,
  kFaElec,
  kHBond,
  kCartLengths,
  kCartAngles,
  kCartTorsions,
  kCartImpropers,
  kCartHxlTorsions,
  kDisulfide,
  kRama,
  kOmega,
  kDunbrackRot,
  kDunbrackRotDev,
  kDunbrackSemiRot,
  kLKBallIso,
  kLKBall,
  kLKBridge,
  kLKBridgeUncpl,
  kRef,
  kNScoreTypes,
};

}  // namespace tmol_plugin
