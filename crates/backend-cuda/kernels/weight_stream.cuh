// The weight rows of a warp of a GEMV kernel as a stream of stages, which asynchronous copies bring to a ring in shared memory.
//
// A stage holds 32 chunks of two rows, plane by plane. There are two kinds of copies. Cards of compute capability 9.0 use bulk copies
// for quantised formats of two planes of at least 16 bytes per stage: with more planes, copies are too many and too small.
#pragma once
#include "hopper.cuh"
#include "matmul.cuh"

// Where plane p of a row begins in a stage of one row, and where that stage ends.
template <class F> __host__ __device__ constexpr int stage_at(int plane) {
    int bytes = 0;
    for (int p = 0; p < plane; p++) bytes += F::bytes(p);
    return bytes;
}

// A row of a stage in shared memory, whose planes begin at address `at`.
template <class F> struct Stage {
    u32 at;
    int row;
    __device__ __forceinline__ SharedAddress operator[](int plane) const {
        return {at + 2 * stage_at<F>(plane) + row * F::bytes(plane)};
    }
};

// Pairs of outputs in all, and per expert or head; weight rows per output; chunks of a weight row, and its stages; with experts,
// the row's list.
struct Shape {
    u32 units, per_group, segments, chunks, stages;
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
// second, which is 0 if there is none.
struct Pair {
    u32 group, output, next;
};

template <bool PLAIN> __device__ __forceinline__ Pair pair_of(const MatmulArgs& a, const Shape& shape, u32 unit) {
    if (PLAIN && a.glu) return {0, unit, 0};
    Pair pair = {0, unit, 0};
    u32 outputs = a.outputs[0];
    if (PLAIN) {
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
    Rows of = {{part, a.glu ? 1 : part}, {pair.output, pair.output + pair.next}, 0};
    if (PLAIN) {
        // The last output of an odd number is alone.
        u32 outputs = select3(pair.group, a.outputs[0], a.outputs[1], a.outputs[2]);
        of.elsewhere = a.glu ? ~0u : position.unit + max((outputs - pair.output) / 2, 1);
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
    // Bytes from a row of a plane to the one in its place in the next pair.
    static __device__ __forceinline__ u32 pair_pitch(const MatmulArgs& a, u32 pitch) { return pitch << (a.glu ? 0 : 1); }
};

// All lanes copy 16 bytes at a time. Memory is as fast as some 280 instructions per stage, of which products need a third: addresses
// advance instead of being computed again.
template <class F, bool IS_PLAIN> struct AsyncStream : Stream<IS_PLAIN> {
    using Format = F;
    using Base = Stream<IS_PLAIN>;
    static constexpr bool PLAIN = IS_PLAIN;
    // Bytes of a stage, and the stages of a warp.
    static constexpr u32 STAGE = (2 * stage_at<F>(F::PLANES) + 15) / 16 * 16;
    static constexpr u32 STAGES = STAGE > 4096 ? 2 : STAGE > 1200 ? 3 : 4;
    // Stages that are filled before the previous kernel has ended. More would delay the loads of a kernel's activations: on the
    // same multiprocessor, they queue behind the copies for the kernel after it.
    static constexpr u32 EARLY = STAGES > 2 ? 2 : 1;

    // The lane's next bytes in each plane of the two weight rows, or in one of them if a row has at most 256 bytes per
    // stage.
    const u8* at[F::PLANES][2];
    // By plane, the first chunk of the lane's first piece.
    u32 first_chunk[F::PLANES];

    __device__ __forceinline__ AsyncStream(const MatmulArgs&, const Shape&, u32, int lane) {
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) first_chunk[i] = once(chunk_of(i, 0, lane));
    }

    static __device__ __forceinline__ int row_of(int plane, int lane) {
        int bytes = F::bytes(plane);
        return bytes >= 512 ? 0 : bytes < 16 ? lane & 1 : lane / (bytes / 16) & 1;
    }

    // The first chunk of a stage in the lane's piece `k` of a plane; past all chunks if the lane has no such piece.
    static __device__ __forceinline__ u32 chunk_of(int plane, int k, int lane) {
        int bytes = F::bytes(plane);
        if (bytes >= 512) return (32 * k + lane) * 512 / bytes;
        if (bytes < 16) return lane < 2 ? 0 : ~0u;
        return lane < bytes / 8 ? lane % (bytes / 16) * 512 / bytes : ~0u;
    }

    __device__ __forceinline__ void find_rows(const MatmulArgs& a, const Shape& shape, int lane) {
        Rows of = rows_of(a, shape, this->position);
        this->elsewhere = of.elsewhere;
        u32 stage = (shape.chunks - this->position.rest) / 32;
        Planes planes[2];
        const u8* weights[2] = {part_planes(a, of.parts[0], planes[0]), part_planes(a, of.parts[1], planes[1])};
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int row = F::bytes(i) >= 512 ? r : row_of(i, lane);
                u32 offset = i == 0 ? 0 : row == 0 ? planes[0].offsets[i - 1] : planes[1].offsets[i - 1];
                u32 piece = F::bytes(i) >= 512 ? lane : F::bytes(i) < 16 ? 0 : lane % (F::bytes(i) / 16);
                at[i][r] = (row == 0 ? weights[0] : weights[1]) + size_t(offset) * 16 +
                           (row == 0 ? of.rows[0] : of.rows[1]) * planes[0].pitches[i] + (stage * F::bytes(i) + 16 * piece);
            }
        }
    }

    // Copies the next stage to `stage`, if there is one.
    __device__ __forceinline__ void copy(const MatmulArgs& a, const Shape& shape, u32 stage, int lane) {
        start(a, shape, stage + 16 * lane, lane);
        copy_commit();
    }

    __device__ __forceinline__ void start(const MatmulArgs& a, const Shape& shape, u32 to, int lane) {
        if (--this->left < 0) return;
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) {
            const int bytes = F::bytes(i);
            u32 at_plane = to + 2 * stage_at<F>(i);
            at[i][0] += bytes;
            if (bytes >= 512) at[i][1] += bytes;
            const u8* from[2] = {at[i][0] - bytes, at[i][1] - bytes};
            bool is_copied = first_chunk[i] < this->position.rest;
            if (bytes == 8) {
                copy_async_if<8>(at_plane - 8 * lane, from[0], is_copied);
            } else if (bytes < 512) {
                copy_async_if<16>(at_plane, from[0], is_copied);
            } else {
#pragma unroll
                for (int k = 0; k < bytes / 512; k++) {
                    if (k > 0) is_copied = chunk_of(i, k, lane) < this->position.rest;
                    copy_async_if<16>(at_plane + 512 * k, from[0] + 512 * k, is_copied);
                    copy_async_if<16>(at_plane + bytes + 512 * k, from[1] + 512 * k, is_copied);
                }
            }
        }
        if (this->position.rest > 32) {
            this->position.rest -= 32;
            return;
        }
        this->position.next_row(shape);
        if (this->left == 0) return;
        if (!this->follows()) return find_rows(a, shape, lane);
#pragma unroll
        for (int i = 0; i < F::PLANES; i++) {
            int bytes = int(Base::pair_pitch(a, a.planes[0].pitches[i]) - shape.stages * F::bytes(i));
            at[i][0] += bytes;
            if (F::bytes(i) >= 512) at[i][1] += bytes;
        }
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

// One lane copies a plane of a row of a stage. These copies do not stand in the way of the loads of activations.
template <class F, bool IS_PLAIN> struct BulkStream : Stream<IS_PLAIN> {
    using Format = F;
    using Base = Stream<IS_PLAIN>;
    static constexpr bool PLAIN = IS_PLAIN;
    static constexpr u32 LANES = 4, BYTES = 2 * stage_at<F>(2);
    static_assert(F::PLANES == 2 && F::bytes(0) % 16 == 0 && F::bytes(1) % 16 == 0, "as `has_bulk_copies` in `shared_memory.rs`");
    // A stage ends with its barrier.
    static constexpr u32 STAGE = BYTES + 16;
    static constexpr u32 STAGES = BYTES > 2048 ? 2 : BYTES > 1200 ? 3 : 4;
    // Stages that are filled before the previous kernel has ended. Of two large ones, one was faster.
    static constexpr u32 EARLY = STAGES > 2 ? STAGES : 1;

    // The lane's next bytes.
    const u8* at;
    // Bytes of the lane's plane in a stage, where they go, and the distance from the end of a row to the next pair's.
    u32 bytes, to;
    int skipped;

    template <class Of> static __device__ __forceinline__ u32 of_plane(int lane, Of of) { return lane < 2 ? of(0) : of(1); }

    __device__ __forceinline__ BulkStream(const MatmulArgs& a, const Shape& shape, u32 ring, int lane) {
        bytes = of_plane(lane, [](int i) { return F::bytes(i); });
        to = of_plane(lane, [](int i) { return 2 * stage_at<F>(i); }) + lane % 2 * bytes;
        u32 pitch = of_plane(lane, [&](int i) { return a.planes[0].pitches[i]; });
        skipped = int(Base::pair_pitch(a, pitch) - shape.stages * bytes);
        if (lane < STAGES) init_barrier(ring + lane * STAGE + BYTES);
        fence_barriers();
        __syncwarp();
    }

    __device__ __forceinline__ void find_rows(const MatmulArgs& a, const Shape& shape, int lane) {
        Rows of = rows_of(a, shape, this->position);
        this->elsewhere = of.elsewhere;
        bool is_second = lane & 1;
        Planes planes;
        const u8* weights = part_planes(a, is_second ? of.parts[1] : of.parts[0], planes);
        u32 offset = of_plane(lane, [&](int i) { return i == 0 ? 0 : planes.offsets[i - 1]; });
        u32 pitch = of_plane(lane, [&](int i) { return planes.pitches[i]; });
        u32 stage = (shape.chunks - this->position.rest) / 32;
        at = weights + size_t(offset) * 16 + (is_second ? of.rows[1] : of.rows[0]) * pitch + stage * bytes;
    }

    // Copies the next stage to `stage`, if there is one.
    __device__ __forceinline__ void copy(const MatmulArgs& a, const Shape& shape, u32 stage, int lane) {
        if (--this->left < 0) return;
        u32 size = bytes, all = BYTES, rest = this->position.rest;
        if (rest < 32) {
            // Rows begin at multiples of 16 bytes.
            auto of_rest = [&](u32 of_stage) { return (rest * of_stage / 32 + 15) / 16 * 16; };
            size = of_rest(bytes), all = 2 * (of_rest(F::bytes(0)) + of_rest(F::bytes(1)));
        }
        if (lane == 0) expect_bytes(stage + BYTES, all);
        if (lane < LANES) copy_bulk(stage + to, at, size, stage + BYTES);
        at += bytes;
        if (!this->position.ends_row(shape) || this->left == 0) return;
        if (!this->follows()) return find_rows(a, shape, lane);
        at += skipped;
    }

    // Waits for a stage. `round`: how often it has been filled before, modulo 2.
    static __device__ __forceinline__ void wait(u32 stage, u32 round) { wait_for_copy(stage + BYTES, round); }
    // Waits for the first stages, of `count` in all, before any other one.
    static __device__ __forceinline__ void wait_for_early(u32 ring, u32 count) {
        for (u32 i = 0; i < EARLY && i < count; i++) wait(ring + i * STAGE, 0);
    }
};

#endif
