#pragma once
// GPUHPC_TARGET_BEGIN("avx2,fma") ... GPUHPC_TARGET_END: the functions between may use these
// instructions; stands after all includes.
#ifdef __clang__
#define GPUHPC_PRAGMA(text) _Pragma(#text)
#define GPUHPC_TARGET_BEGIN(features) \
  GPUHPC_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define GPUHPC_TARGET_END GPUHPC_PRAGMA(clang attribute pop)
#else
#define GPUHPC_PRAGMA(text) _Pragma(#text)
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for mistakes of ours.
#define GPUHPC_TARGET_BEGIN(features)                           \
  GPUHPC_PRAGMA(GCC target(features))                           \
  GPUHPC_PRAGMA(GCC diagnostic push)                            \
  GPUHPC_PRAGMA(GCC diagnostic ignored "-Wmaybe-uninitialized") \
  GPUHPC_PRAGMA(GCC diagnostic ignored "-Wuninitialized")
#define GPUHPC_TARGET_END
#endif
