// The functions of f16 that the kernels use.
#pragma once

#include "device.h"

// Products and sums of halves are rounded once.
struct __half { uint16_t bits; };
struct alignas(4) __half2 { __half x, y; };
inline float __half2float(__half h) { return _cvtsh_ss(h.bits); }
inline __half __float2half_rn(float x) { return {uint16_t(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT))}; }
inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline float __low2float(__half2 h) { return __half2float(h.x); }
inline float __high2float(__half2 h) { return __half2float(h.y); }
inline __half2 __low2half2(__half2 h) { return {h.x, h.x}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __high2half2(__half2 h) { return {h.y, h.y}; }
inline __half2 __hneg2(__half2 h) { return {{uint16_t(h.x.bits ^ 0x8000)}, {uint16_t(h.y.bits ^ 0x8000)}}; }
inline __half2 __hmul2(__half2 a, __half2 b) {
    float2 x = __half22float2(a), y = __half22float2(b);
    return __floats2half2_rn(x.x * y.x, x.y * y.y);
}
inline __half2 __hsub2(__half2 a, __half2 b) {
    float2 x = __half22float2(a), y = __half22float2(b);
    return __floats2half2_rn(x.x - y.x, x.y - y.y);
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    float2 x = __half22float2(a), y = __half22float2(b), z = __half22float2(c);
    return __floats2half2_rn(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
}
