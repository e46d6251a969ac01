// The weight rows of a warp of a GEMV kernel as a stream of stages, which asynchronous copies bring to a ring in shared memory.
//
// A stage has a tile (`formats.cuh`) of two rows, which lie side by side if rows come in pairs. There are two kinds of copies: cards
// of compute capability 9.0 copy in bulk.
#pragma once
#include "hopper.cuh"
#include "matmul.cuh"

// A tile in shared memory. The planes of one of fewer chunks are where those of a whole one are.
template <class F> struct Stage {
    u32 at;
    int row;
    __device__ __forceinline__ SharedAddress operator[](int plane) const { return {at + row * TILE_BYTES<F> + plane_at<F>(plane)}; }
};

// A plane of a row's last tile, which has `rest` chunks: its offsets in a tile of that size and in a whole one, and its bytes.
template <class F> struct LastPlane {
    u32 from, to, bytes;
    static __device__ __forceinline__ LastPlane of(int plane, u32 rest) {
        if (F::FLOAT) return {0, 0, (rest * F::bytes(0) / TILE_CHUNKS + 15) / 16 * 16};
        u32 blocks = (rest + BLOCK_CHUNKS - 1) / BLOCK_CHUNKS;
        return {plane_at<F>(plane, blocks), plane_at<F>(plane), plane_bytes<F>(plane, blocks)};
    }
};

// Pairs of outputs in all, and per expert or head; weight rows per output; chunks of a weight row, and its stages; with experts,
// the row's list.
struct Shape {
    u32 units, per_group, segments, chunks, stages;
    // PLAIN with a GLU: the block's first pair, and how many it has. Their gates come first, and then their up projections.
    u32 first, gates;
    const u32* list;
};

// A stage of the block's outputs: their pair, the weight row, and the chunks from there to its end. PLAIN: outputs have one weight
// row.
template <bool PLAIN> struct Position {
    u32 unit, segment, rest;

    // The stage with this index, counted from pair `first` on.
    static __device__ __forceinline__ Position at(const Shape& shape, u32 first, u32 index) {
        u32 row = index / shape.stages, unit = PLAIN ? row : row / shape.segments;
        return {first + unit, row - unit * shape.segments, shape.chunks - 32 * (index - row * shape.stages)};
    }
    // Whether the stage begins behind the first one of its pair.
    __device__ __forceinline__ bool is_inside(const Shape& shape) const { return segment > 0 || rest < shape.chunks; }
    // Goes to the next stage. Whether that is in another row.
    __device__ __forceinline__ bool ends_row(const Shape& shape) {
        if (rest > 32) {
            rest -= 32;
            return false;
        }
        next_row(shape);
        return true;
    }
    __device__ __forceinline__ void next_row(const Shape& shape) {
        rest = shape.chunks;
        if (PLAIN || ++segment == shape.segments) segment = 0, unit++;
    }
};

// The two outputs of a pair: their part, expert's slot or head, the first one's index there, and the distance of the
// second, which is 0 if there is none; with a GLU of experts, one output.
struct Pair {
    u32 group, output, next;
};

template <bool PLAIN> __device__ __forceinline__ Pair pair_of(const MatmulArgs& a, const Shape& shape, u32 unit) {
    Pair pair = {0, unit, 0};
    u32 outputs = a.outputs[0];
    if (PLAIN && a.glu) {
        pair.group = unit - shape.first >= shape.gates;
        if (pair.group == 1) pair.output -= shape.gates;
    } else if (PLAIN) {
        u32 pairs = (a.outputs[0] + 1) / 2;
        if (pair.output >= pairs) pair.output -= pairs, pair.group = 1, outputs = a.outputs[1], pairs = (outputs + 1) / 2;
        if (pair.group == 1 && pair.output >= pairs) pair.output -= pairs, pair.group = 2, outputs = a.outputs[2];
    } else {
        if (a.mode != OUT_OF_HIDDEN) {
            pair.group = unit / shape.per_group;
            pair.output = unit - pair.group * shape.per_group;
        }
        if (a.glu) return pair;
        if (a.mode == PER_HEAD) outputs = a.outputs[1];
    }
    pair.output *= 2;
    pair.next = pair.output + 1 < outputs;
    return pair;
}

// The two weight rows of a stage.
struct Rows {
    // Their parts, and numbers there.
    u32 parts[2];
    size_t rows[2];
    // PLAIN: the next pair whose rows do not follow those of the pair before.
    u32 elsewhere;
};

template <bool PLAIN>
__device__ __forceinline__ Rows rows_of(const MatmulArgs& a, const Shape& shape, const Position<PLAIN>& position) {
    Pair pair = pair_of<PLAIN>(a, shape, position.unit);
    u32 part = PLAIN ? pair.group : 0;
    Rows of = {{part, !PLAIN && a.glu ? 1 : part}, {pair.output, pair.output + pair.next}, 0};
    if (PLAIN) {
        // The last output of an odd number is alone.
        u32 outputs = a.glu ? a.outputs[0] : select3(pair.group, a.outputs[0], a.outputs[1], a.outputs[2]);
        of.elsewhere = position.unit + max((outputs - pair.output) / 2, 1);
        if (a.glu && pair.group == 0) of.elsewhere = min(of.elsewhere, shape.first + shape.gates);
    } else if (a.mode == INTO_HIDDEN) {
        size_t matrix = size_t(expert_of(shape.list, pair.group)) * a.per_expert;
        of.rows[0] += matrix * a.outputs[0];
        of.rows[1] += (matrix + (a.glu ? a.up : 0)) * a.outputs[0];
    } else {
        size_t before = a.mode == PER_HEAD ? size_t(pair.group) * a.outputs[1]
                                           : size_t(expert_of(shape.list, position.segment)) * a.outputs[0];
        of.rows[0] += before, of.rows[1] += before;
    }
    return of;
}

// What both kinds of streams have.
template <bool PLAIN> struct Stream {
    // The next stage to copy, and how many are left; negative behind the last one.
    Position<PLAIN> position;
    int left;
    // As in `Rows`.
    u32 elsewhere;

    // Whether the rows that begin with the next stage follow those of the stage before.
    __device__ __forceinline__ bool follows() const { return PLAIN && position.unit != elsewhere; }
    // Bytes from behind the last tile of a row, were it whole, to the row in its place in the next pair.
    template <class F> static __device__ __forceinline__ int to_next_pair(const MatmulArgs& a, const Shape& shape) {
        return int(2 * a.pitch - shape.stages * tile_step<F>(is_paired(a)));
    }
};

// All lanes copy 16 bytes at a time. Memory is as fast as some 280 instructions per stage of Q4_K, of which products need a third:
// addresses advance instead of being computed again.
template <class F, bool IS_PLAIN> struct AsyncStream : Stream<IS_PLAIN> {
    using Format = F;
    using Base = Stream<IS_PLAIN>;
    static constexpr bool PLAIN = IS_PLAIN;
    // Bytes of a stage, and the stages of a warp.
    static constexpr u32 STAGE = 2 * TILE_BYTES<F>, STAGES = STAGE > 4096 ? 2 : STAGE > 1200 ? 3 : 4;
    // Stages that are filled before the previous kernel has ended. More would delay the loads of a kernel's activations: on the
    // same multiprocessor, they queue behind the copies for the kernel after it.
    static constexpr u32 EARLY = STAGES > 2 ? 2 : 1;
    // Whether an early stage is copied only once the one before has come.
    static constexpr bool IS_PACED = false;
    // Units of 16 bytes of a tile.
    static constexpr u32 UNITS = TILE_BYTES<F> / 16;

    // The lane's next bytes in both rows.
    const u8* at[2];

    __device__ __forceinline__ AsyncStream(u32, int) {}

    __device__ __forceinline__ void find_rows(const MatmulArgs& a, const Shape& shape, int lane) {
        Rows of = rows_of(a, shape, this->position);
        this->elsewhere = of.elsewhere;
        u32 stage = (shape.chunks - this->position.rest) / TILE_CHUNKS;
#pragma unroll
        for (int r = 0; r < 2; r++) at[r] = weight_row<F>(a, of.parts[r], of.rows[r]) + (stage * tile_step<F>(is_paired(a)) + 16 * lane);
    }

    // Copies the next stage to `stage`, if there is one.
    __device__ __forceinline__ void copy(const MatmulArgs& a, const Shape& shape, u32 stage, int lane) {
        start(a, shape, stage + 16 * lane, lane);
        copy_commit();
    }

    __device__ __forceinline__ void start(const MatmulArgs& a, const Shape& shape, u32 to, int lane) {
        if (--this->left < 0) return;
        u32 rest = this->position.rest;
        if (rest >= TILE_CHUNKS) {
            // Both rows' units one after the other.
#pragma unroll
            for (u32 k = 0; k < (2 * UNITS + 31) / 32; k++) {
                u32 unit = 32 * k + lane;
                const u8* from = unit < UNITS ? at[0] : at[1] - 16 * UNITS;
                copy_async_if<16>(to + 512 * k, from + 512 * k, unit < 2 * UNITS);
            }
        } else {
#pragma unroll
            for (int p = 0; p < F::PLANES; p++) {
                LastPlane<F> plane = LastPlane<F>::of(p, rest);
#pragma unroll 1
                for (u32 k = 0; 512 * k < plane.bytes; k++) {
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        copy_async_if<16>(to + r * TILE_BYTES<F> + plane.to + 512 * k, at[r] + plane.from + 512 * k,
                                          512 * k + 16 * lane < plane.bytes);
                    }
                }
            }
        }
        u32 step = tile_step<F>(is_paired(a));
        at[0] += step, at[1] += step;
        if (!this->position.ends_row(shape) || this->left == 0) return;
        if (!this->follows()) return find_rows(a, shape, lane);
        int bytes = Base::template to_next_pair<F>(a, shape);
        at[0] += bytes, at[1] += bytes;
    }

    // Waits for the oldest stage.
    static __device__ __forceinline__ void wait(u32, u32) {
        copy_wait<STAGES - 1>();
        __syncwarp();
    }
    // Waits for the first stages, before any other one.
    static __device__ __forceinline__ void wait_for_early(u32, u32) { copy_wait<0>(); }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// One instruction copies the tiles of a pair of rows, or a lane that of a row, or a plane of a row's last one.
template <class F, bool IS_PLAIN> struct BulkStream : Stream<IS_PLAIN> {
    using Format = F;
    using Base = Stream<IS_PLAIN>;
    static constexpr bool PLAIN = IS_PLAIN;
    // A stage ends with its barrier.
    static constexpr u32 BYTES = 2 * TILE_BYTES<F>, STAGE = BYTES + 16, STAGES = BYTES > 1200 ? 2 : 3;
    // Stages that are filled before the previous kernel has ended, one after the other: more bytes on the way would delay the loads
    // of that kernel's activations.
    static constexpr u32 EARLY = STAGES - 1;
    static constexpr bool IS_PACED = true;

    // The next bytes of the row that the lane copies; the first lane's are those of a pair.
    const u8* at;

    __device__ __forceinline__ BulkStream(u32 ring, int lane) {
        if (lane < STAGES) init_barrier(ring + lane * STAGE + BYTES);
        fence_barriers();
        __syncwarp();
    }

    __device__ __forceinline__ void find_rows(const MatmulArgs& a, const Shape& shape, int lane) {
        Rows of = rows_of(a, shape, this->position);
        this->elsewhere = of.elsewhere;
        u32 row = lane & 1, stage = (shape.chunks - this->position.rest) / TILE_CHUNKS;
        at = weight_row<F>(a, row ? of.parts[1] : of.parts[0], row ? of.rows[1] : of.rows[0]) + stage * tile_step<F>(is_paired(a));
    }

    // Copies the next stage to `stage`, if there is one.
    __device__ __forceinline__ void copy(const MatmulArgs& a, const Shape& shape, u32 stage, int lane) {
        if (--this->left < 0) return;
        u32 rest = this->position.rest, to = stage + (lane & 1) * TILE_BYTES<F>;
        if (PLAIN && !F::FLOAT && is_paired(a)) {
            if (lane == 0) {
                expect_bytes(stage + BYTES, BYTES);
                copy_bulk(stage, at, BYTES, stage + BYTES);
            }
        } else if (rest >= TILE_CHUNKS) {
            if (lane == 0) expect_bytes(stage + BYTES, BYTES);
            if (lane < 2) copy_bulk(to, at, TILE_BYTES<F>, stage + BYTES);
        } else {
            LastPlane<F> own = LastPlane<F>::of(0, rest);
            u32 all = 0;
#pragma unroll
            for (int p = 0; p < F::PLANES; p++) {
                LastPlane<F> plane = LastPlane<F>::of(p, rest);
                if (lane / 2 == p) own = plane;
                all += 2 * plane.bytes;
            }
            if (lane == 0) expect_bytes(stage + BYTES, all);
            if (lane < 2 * F::PLANES) copy_bulk(to + own.to, at + own.from, own.bytes, stage + BYTES);
        }
        at += tile_step<F>(is_paired(a));
        if (!this->position.ends_row(shape) || this->left == 0) return;
        if (!this->follows()) return find_rows(a, shape, lane);
        at += Base::template to_next_pair<F>(a, shape);
    }

    // Waits for a stage. `round`: how often it has been filled before, modulo 2.
    static __device__ __forceinline__ void wait(u32 stage, u32 round) { wait_for_copy(stage + BYTES, round); }
    // Waits for the first stages, of `count` in all, before any other one.
    static __device__ __forceinline__ void wait_for_early(u32 ring, u32 count) {
        for (u32 i = 0; i < EARLY && i < count; i++) wait(ring + i * STAGE, 0);
    }
};

#endif
