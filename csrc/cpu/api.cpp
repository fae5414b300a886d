// The functions of the C ABI: plain arguments in, exceptions turned into messages.
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>

#include "prepare/tables.h"
#include "tmol_plugin.h"

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

}  // namespace

const char* tp_version(void) { return TMOL_PLUGIN_VERSION; }

tp_tables* tp_tables_create(const tp_array* arrays, int32_t n_arrays, char* error,
                            int64_t error_size) {
  return guarded(error, error_size, [&] {
    if (n_arrays < 0 || (arrays == nullptr && n_arrays > 0)) {
      throw std::invalid_argument("no arrays are given");
    }
    const std::span given(arrays, static_cast<std::size_t>(n_arrays));
    return std::make_unique<tp_tables>(tmol_plugin::Arrays(given)).release();
  });
}

void tp_tables_free(tp_tables* tables) { delete tables; }
