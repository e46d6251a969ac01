// Matrices that the lanes of a warp have, and their products on tensor cores.
#include "blocks.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace emulated {

void load_matrices(void* const* lanes, uint32_t there) {
    need_all(there);
    auto lane = [&](uint32_t i) { return static_cast<Matrices*>(lanes[i]); };
    for (uint32_t m = 0; m < 4; m++) {
        uint16_t values[8][8];
        for (uint32_t row = 0; row < 8; row++) {
            uint32_t address = lane(8 * m + row)->address;
            if (address % 16) fail("a row of a matrix is not aligned");
            memcpy(values[row], shared_pointer(address), 16);
        }
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t row = i / 4, col = i % 4 * 2;
            bool is_transposed = lane(i)->is_transposed;
            uint32_t low = is_transposed ? values[col][row] : values[row][col];
            uint32_t high = is_transposed ? values[col + 1][row] : values[row][col + 1];
            lane(i)->r[m] = low | high << 16;
        }
    }
}

namespace {

float to_float(uint16_t bits, bool is_bf16) {
    if (!is_bf16) return _cvtsh_ss(bits);
    uint32_t as_f32 = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &as_f32, sizeof value);
    return value;
}

// The 16 x 16 values that lanes have as the first operand of a product.
template <class Words> void first_operand(float (&to)[16][16], bool is_bf16, Words words) {
    for (uint32_t i = 0; i < 32; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t word = words(i)[j], row = i / 4 + j % 2 * 8, col = i % 4 * 2 + j / 2 * 8;
            to[row][col] = to_float(uint16_t(word), is_bf16), to[row][col + 1] = to_float(uint16_t(word >> 16), is_bf16);
        }
    }
}

// Adds the product of 16 x 16 and 16 x 8 values to what lanes have of 16 x 8 sums.
template <class Sums> void add_product(const float (&a)[16][16], const float (&b)[16][8], Sums sums) {
    for (uint32_t row = 0; row < 16; row++) {
        float total[8] = {};
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t col = 0; col < 8; col++) total[col] += a[row][k] * b[k][col];
        }
        for (uint32_t col = 0; col < 8; col++) sums(row % 8 * 4 + col / 2)[row / 8 * 2 + col % 2] += total[col];
    }
}

} // namespace

void multiply(void* const* lanes, uint32_t there) {
    need_all(there);
    auto lane = [&](uint32_t i) { return static_cast<Product*>(lanes[i]); };
    bool is_bf16 = lane(0)->is_bf16;
    float a[16][16], b[16][8];
    first_operand(a, is_bf16, [&](uint32_t i) { return lane(i)->a; });
    for (uint32_t i = 0; i < 32; i++) {
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t word = lane(i)->b[j], k = i % 4 * 2 + j * 8;
            b[k][i / 4] = to_float(uint16_t(word), is_bf16), b[k + 1][i / 4] = to_float(uint16_t(word >> 16), is_bf16);
        }
    }
    add_product(a, b, [&](uint32_t i) { return lane(i)->c; });
}

namespace {

// A matrix in shared memory: panels of rows of 64 values in 128 bytes, whose units of 16 bytes are permuted by the row. Bits 4 to 6
// of an address are xored with bits 7 to 9 (128-byte swizzle).
struct Panels {
    uint32_t start, panel, eight_rows;

    explicit Panels(uint64_t descriptor)
        : start(uint32_t(descriptor & 0x3fff) << 4), panel(uint32_t(descriptor >> 16 & 0x3fff) << 4),
          eight_rows(uint32_t(descriptor >> 32 & 0x3fff) << 4) {
        if (descriptor >> 62 != 1 || start % 1024 >= 128) fail("a matrix in shared memory is not one of 128-byte swizzle");
    }
    float at(uint32_t row, uint32_t col) const {
        uint32_t address = start + col / 64 * panel + row / 8 * eight_rows + row % 8 * 128 + col % 64 * 2;
        uint16_t bits;
        memcpy(&bits, shared_pointer(address ^ (address >> 7 & 7) << 4), sizeof bits);
        return _cvtsh_ss(bits);
    }
};

} // namespace

// A warp's 16 rows of the product of a warpgroup.
void multiply_warp(void* const* lanes, uint32_t there) {
    need_all(there);
    auto lane = [&](uint32_t i) { return static_cast<LaterProduct*>(lanes[i]); };
    const LaterProduct& first_lane = *lane(0);
    float a[16][16], b[16][8];
    if (first_lane.shared_a) {
        Panels panels(first_lane.shared_a);
        for (uint32_t row = 0; row < 16; row++) {
            for (uint32_t k = 0; k < 16; k++) a[row][k] = panels.at(emulated_thread->index.x / 32 % 4 * 16 + row, k);
        }
    } else {
        first_operand(a, false, [&](uint32_t i) { return lane(i)->a; });
    }
    Panels panels(first_lane.b);
    for (uint32_t first = 0; first < first_lane.cols; first += 8) {
        for (uint32_t col = 0; col < 8; col++) {
            for (uint32_t k = 0; k < 16; k++) {
                b[k][col] = first_lane.is_by_column ? panels.at(first + col, k) : panels.at(k, first + col);
            }
        }
        for (uint32_t i = 0; i < 32 && !first_lane.is_added; i++) std::fill_n(lane(i)->c + first / 2, 4, 0.0f);
        add_product(a, b, [&](uint32_t i) { return lane(i)->c + first / 2; });
    }
}

} // namespace emulated
