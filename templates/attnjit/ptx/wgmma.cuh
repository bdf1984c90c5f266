#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Asynchronous matrix multiply-accumulate of a warpgroup (PTX ISA, "wgmma"): c += a b for 64 rows,
// 16 deep, with fp32 sums. Warp w of the warpgroup has rows 16 w to 16 w + 15 of c, in fragments as
// mma.sync has them.
//
// The rules of use: wgmma_fence() after the warpgroup has touched the registers of c or a, and
// before the first product; then products; wgmma_commit() closes their group; no thread touches
// their registers or writes their tiles in shared memory until wgmma_wait() has seen the group end.
// hold() on both sides keeps the compiler from moving uses of the registers across.
namespace attnjit::kernel::ptx {

ATTNJIT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
ATTNJIT_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending groups are unfinished.
template <int kPending>
ATTNJIT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
ATTNJIT_DEVICE void hold(float& value) { asm volatile("" : "+f"(value)::"memory"); }
ATTNJIT_DEVICE void hold(uint32& value) { asm volatile("" : "+r"(value)::"memory"); }

// What lies side by side in a line of an operand's tile: the depth of the product ("K-major"), or
// its columns ("MN-major").
enum class Major : int { kDepth = 0, kColumns = 1 };

// The descriptor of a tile in shared memory whose lines are kLineBytes, 128 or 64, with the swizzle
// of that name, 8 lines at a time `stride_bytes` apart. `leading_bytes` lies between slabs of so
// many bytes of columns of Major::kColumns; it is without effect otherwise. Addresses within a tile
// are reached by adding bytes / 16.
template <int kLineBytes = 128>
ATTNJIT_DEVICE uint64 matrix_descriptor(uint32 address, int leading_bytes, int stride_bytes) {
  static_assert(kLineBytes == 128 || kLineBytes == 64);
  constexpr uint64 kLayout = kLineBytes == 128 ? 1 : 2;
  return static_cast<uint64>((address & 0x3ffff) >> 4) |
         static_cast<uint64>(leading_bytes >> 4) << 16 |
         static_cast<uint64>(stride_bytes >> 4) << 32 | kLayout << 62;
}

// The descriptor of a tile of Major::kDepth whose lines are 16 bytes, one after another: half of
// the depth, which is read twice.
ATTNJIT_DEVICE uint64 short_line_descriptor(uint32 address) {
  return static_cast<uint64>((address & 0x3ffff) >> 4) | static_cast<uint64>(128 >> 4) << 32;
}

// The operands of c by 32 columns. Inline assembly wants literals, so that each width is an
// instruction of its own.
#define ATTNJIT_C0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define ATTNJIT_C1 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTNJIT_C2 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTNJIT_C3 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTNJIT_C4 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define ATTNJIT_C5 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ATTNJIT_C6 \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define ATTNJIT_C7 \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ATTNJIT_COLUMNS_8(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define ATTNJIT_COLUMNS_32(c, n)                                                     \
  ATTNJIT_COLUMNS_8(c, n), ATTNJIT_COLUMNS_8(c, n + 1), ATTNJIT_COLUMNS_8(c, n + 2), \
      ATTNJIT_COLUMNS_8(c, n + 3)
#define ATTNJIT_COLUMNS_64(c, n) ATTNJIT_COLUMNS_32(c, n), ATTNJIT_COLUMNS_32(c, n + 4)
#define ATTNJIT_COLUMNS_128(c, n) ATTNJIT_COLUMNS_64(c, n), ATTNJIT_COLUMNS_64(c, n + 8)

// One product of `width` columns, with its operands' numbers, and in the end those of c: a and b
// from shared memory, or a from registers.
#define ATTNJIT_WGMMA_SHARED(width, types, registers, pa, pb, padds, pmajor, ...)                 \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " padds                                    \
               ", 0;\n"                                                                           \
               "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." types " {" registers "}, " pa \
               ", " pb ", adds, 1, 1, 0, " pmajor ";\n}"                                          \
               : __VA_ARGS__                                                                      \
               : "l"(a), "l"(b), "r"(static_cast<uint32>(adds)), "n"(static_cast<int>(kMajor)))
#define ATTNJIT_WGMMA_REGISTERS(width, types, registers, pa0, pa1, pa2, pa3, pb, padds, pmajor, \
                                ...)                                                            \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " padds                                  \
               ", 0;\n"                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" width "k16.f32." types " {" registers        \
               "}, {" pa0 ", " pa1 ", " pa2 ", " pa3 "}, " pb ", adds, 1, 1, " pmajor ";\n}"    \
               : __VA_ARGS__                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                            \
                 "r"(static_cast<uint32>(adds)), "n"(static_cast<int>(kMajor)))

// A width, both forms, both types of elements. p0 to p6 are the numbers after those of c.
#define ATTNJIT_WGMMA(width, text, registers, p0, p1, p2, p3, p4, p5, p6, ...)                   \
  template <DType kDType, Major kMajor = Major::kDepth>                                          \
  ATTNJIT_DEVICE void multiply_async(float(&c)[width / 8][4], uint64 a, uint64 b, bool adds) {   \
    if constexpr (kDType == DType::kBFloat16) {                                                  \
      ATTNJIT_WGMMA_SHARED(text, "bf16.bf16", registers, p0, p1, p2, p3, __VA_ARGS__);           \
    } else {                                                                                     \
      ATTNJIT_WGMMA_SHARED(text, "f16.f16", registers, p0, p1, p2, p3, __VA_ARGS__);             \
    }                                                                                            \
  }                                                                                              \
  template <DType kDType, Major kMajor = Major::kColumns>                                        \
  ATTNJIT_DEVICE void multiply_async(float(&c)[width / 8][4], const uint32(&a)[4], uint64 b,     \
                                     bool adds) {                                                \
    if constexpr (kDType == DType::kBFloat16) {                                                  \
      ATTNJIT_WGMMA_REGISTERS(text, "bf16.bf16", registers, p0, p1, p2, p3, p4, p5, p6,          \
                              __VA_ARGS__);                                                      \
    } else {                                                                                     \
      ATTNJIT_WGMMA_REGISTERS(text, "f16.f16", registers, p0, p1, p2, p3, p4, p5, p6,            \
                              __VA_ARGS__);                                                      \
    }                                                                                            \
  }

// c = a b, or c += a b where `adds`. a lies in shared memory by lines of its depth, or in
// registers; b by lines of its depth or of its columns.
ATTNJIT_WGMMA(8, "8", "%0, %1, %2, %3", "%4", "%5", "%6", "%7", "%8", "%9", "%10",
              ATTNJIT_COLUMNS_8(c, 0))
ATTNJIT_WGMMA(32, "32", ATTNJIT_C0, "%16", "%17", "%18", "%19", "%20", "%21", "%22",
              ATTNJIT_COLUMNS_32(c, 0))
ATTNJIT_WGMMA(40, "40", ATTNJIT_C0 ", %16, %17, %18, %19", "%20", "%21", "%22", "%23", "%24", "%25",
              "%26", ATTNJIT_COLUMNS_32(c, 0), ATTNJIT_COLUMNS_8(c, 4))
ATTNJIT_WGMMA(64, "64", ATTNJIT_C0 ", " ATTNJIT_C1, "%32", "%33", "%34", "%35", "%36", "%37", "%38",
              ATTNJIT_COLUMNS_64(c, 0))
ATTNJIT_WGMMA(72, "72", ATTNJIT_C0 ", " ATTNJIT_C1 ", %32, %33, %34, %35", "%36", "%37", "%38",
              "%39", "%40", "%41", "%42", ATTNJIT_COLUMNS_64(c, 0), ATTNJIT_COLUMNS_8(c, 8))
ATTNJIT_WGMMA(96, "96", ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2, "%48", "%49", "%50", "%51",
              "%52", "%53", "%54", ATTNJIT_COLUMNS_64(c, 0), ATTNJIT_COLUMNS_32(c, 8))
ATTNJIT_WGMMA(128, "128", ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2 ", " ATTNJIT_C3, "%64", "%65",
              "%66", "%67", "%68", "%69", "%70", ATTNJIT_COLUMNS_128(c, 0))
ATTNJIT_WGMMA(160, "160",
              ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2 ", " ATTNJIT_C3 ", " ATTNJIT_C4, "%80",
              "%81", "%82", "%83", "%84", "%85", "%86", ATTNJIT_COLUMNS_128(c, 0),
              ATTNJIT_COLUMNS_32(c, 16))
ATTNJIT_WGMMA(192, "192",
              ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2 ", " ATTNJIT_C3 ", " ATTNJIT_C4
                         ", " ATTNJIT_C5,
              "%96", "%97", "%98", "%99", "%100", "%101", "%102", ATTNJIT_COLUMNS_128(c, 0),
              ATTNJIT_COLUMNS_64(c, 16))
ATTNJIT_WGMMA(224, "224",
              ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2 ", " ATTNJIT_C3 ", " ATTNJIT_C4
                         ", " ATTNJIT_C5 ", " ATTNJIT_C6,
              "%112", "%113", "%114", "%115", "%116", "%117", "%118", ATTNJIT_COLUMNS_128(c, 0),
              ATTNJIT_COLUMNS_64(c, 16), ATTNJIT_COLUMNS_32(c, 24))
ATTNJIT_WGMMA(256, "256",
              ATTNJIT_C0 ", " ATTNJIT_C1 ", " ATTNJIT_C2 ", " ATTNJIT_C3 ", " ATTNJIT_C4
                         ", " ATTNJIT_C5 ", " ATTNJIT_C6 ", " ATTNJIT_C7,
              "%128", "%129", "%130", "%131", "%132", "%133", "%134", ATTNJIT_COLUMNS_128(c, 0),
              ATTNJIT_COLUMNS_128(c, 16))

#undef ATTNJIT_C0
#undef ATTNJIT_C1
#undef ATTNJIT_C2
#undef ATTNJIT_C3
#undef ATTNJIT_C4
#undef ATTNJIT_C5
#undef ATTNJIT_C6
#undef ATTNJIT_C7
#undef ATTNJIT_COLUMNS_8
#undef ATTNJIT_COLUMNS_32
#undef ATTNJIT_COLUMNS_64
#undef ATTNJIT_COLUMNS_128
#undef ATTNJIT_WGMMA_SHARED
#undef ATTNJIT_WGMMA_REGISTERS
#undef ATTNJIT_WGMMA

}  // namespace attnjit::kernel::ptx
