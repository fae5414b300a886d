// The compiled chemistry as preparation uses it.
#pragma once

#include "prepare/arrays.h"

// In the global namespace, as the C ABI names it.
struct tp_tables {
  tmol_plugin::Arrays arrays;
};
