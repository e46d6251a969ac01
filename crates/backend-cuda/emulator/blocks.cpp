#include "blocks.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <immintrin.h>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#if !defined(__x86_64__)
#error "fibers are written for x86-64"
#endif

extern "C" {
__thread emulated::Thread* emulated_thread = nullptr;
}

// Dynamic shared memory of the block that runs on this thread of the operating system; kernels declare it. More than any card has.
constexpr size_t SHARED_BYTES = 256 << 10;
alignas(1024) thread_local unsigned char shared[SHARED_BYTES];

// Its constructor, which GCC calls where a function declares it, without asking whether there is one.
extern "C" void _ZTH6shared() {}

namespace emulated {
namespace {

constexpr uint32_t FIRST_ADDRESS = 16;
// What shared memory has before a block writes it, and bytes beyond it that are checked.
constexpr unsigned char UNWRITTEN = 0xff;
constexpr size_t GUARD = 4 << 10;
constexpr size_t STACK = 128 << 10, MOST_THREADS = 1024;
constexpr uint64_t STACK_END = 0x57ac57ac57ac57ac;

// Saves the registers that a function must preserve on this stack, and goes on with another.
extern "C" void emulated_switch(void** from, void* to);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rdx
    jmpq *%rdx
)");

enum class State { READY, WAITS, POLLS, ENDED };

struct Copy {
    void* to;
    const void* from;
    uint32_t bytes, copied;
};

struct Fiber : Thread {
    void* stack_pointer;
    State state;
    const char* waits_for;
    // Groups that are committed, the oldest first, and the one that is not.
    std::deque<std::vector<Copy>> copies;
    std::vector<Copy> open_copies;
    std::deque<std::vector<LaterProduct>> products;
    std::vector<LaterProduct> open_products;
};

} // namespace

struct Warp {
    uint32_t present, arrived;
    uint32_t mask;
    OfLanes of;
    void* arguments[32];
    Fiber* lanes;
};

namespace {

struct Barrier {
    // Copies that have ended; of the next: whether it is expected, its bytes, and what was started.
    uint32_t phase;
    bool is_expected;
    uint64_t expected, started;
    std::vector<Copy> copies;
};

// The static shared memory of a kernel's module: the thread-local variables of its library.
struct StaticMemory {
    const void* function;
    void* begin;
    size_t bytes;
};

extern "C" void* __tls_get_addr(size_t* variable);

int find_static_memory(dl_phdr_info* library, size_t, void* data) {
    auto& found = *static_cast<StaticMemory*>(data);
    uintptr_t function = reinterpret_cast<uintptr_t>(found.function);
    bool is_it = false;
    found.bytes = 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const auto& part = library->dlpi_phdr[i];
        uintptr_t begin = library->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD) is_it |= function >= begin && function < begin + part.p_memsz;
        if (part.p_type == PT_TLS) found.bytes = part.p_memsz;
    }
    if (!is_it) return 0;
    // Allocates it, if this thread of the operating system has not used it yet.
    size_t variable[] = {library->dlpi_tls_modid, 0};
    if (found.bytes > 0) found.begin = __tls_get_addr(variable);
    return 1;
}

struct Cluster {
    std::barrier<> all;
    std::vector<unsigned char*> memories;
    explicit Cluster(size_t blocks) : all(std::ptrdiff_t(blocks)), memories(blocks) {}
};

// What a thread of the operating system needs to run blocks.
struct Worker : Block {
    const Launch* launch;
    StaticMemory of_module;
    Cluster* cluster;
    uint32_t rank;
    void* stack_pointer;
    unsigned char* stacks;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    uint32_t present, arrived;
    bool is_of_cluster;
    bool has_failed;
    // Counts what threads that poll may wait for.
    uint64_t events;
    // Whether what is asynchronous happens at once, and threads run the last ones first.
    bool is_early;
    std::map<uint32_t, Barrier> barriers;

    Worker() : fibers(MOST_THREADS), warps(MOST_THREADS / 32) {
        void* found = mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) abort();
        stacks = static_cast<unsigned char*>(found);
    }
    ~Worker() { munmap(stacks, STACK * MOST_THREADS); }
};

thread_local std::unique_ptr<Worker> own_worker;

// That of the kernel's thread that runs.
Worker& worker() { return static_cast<Worker&>(*emulated_thread->block); }

Fiber& current() { return *static_cast<Fiber*>(emulated_thread); }

void say(const Worker& w, const char* what) {
    const Index& b = w.index;
    fprintf(stderr, "kernel %s, block (%u, %u, %u) of (%u, %u, %u)", w.launch->kernel->name, b.x, b.y, b.z, w.grid.x, w.grid.y, w.grid.z);
    if (emulated_thread) fprintf(stderr, ", thread %u", emulated_thread->index.x);
    fprintf(stderr, ": %s\n", what);
}

void yield(State state, const char* waits_for) {
    Fiber& own = current();
    own.state = state, own.waits_for = waits_for;
    emulated_switch(&own.stack_pointer, worker().stack_pointer);
}

void finish_warp(Warp& warp) {
    uint32_t there = warp.arrived;
    warp.arrived = 0;
    warp.of(warp.arguments, there);
    for (uint32_t i = 0; i < 32; i++) {
        if (there >> i & 1) warp.lanes[i].state = State::READY;
    }
}

void finish_block(Worker& w) {
    w.arrived = 0;
    if (w.is_of_cluster) w.cluster->all.arrive_and_wait();
    for (uint32_t i = 0; i < w.size.x; i++) {
        if (w.fibers[i].state != State::ENDED) w.fibers[i].state = State::READY;
    }
}

void sync(bool is_of_cluster) {
    Worker& w = worker();
    if (w.arrived > 0 && w.is_of_cluster != is_of_cluster) fail("threads of a block are at different barriers");
    w.is_of_cluster = is_of_cluster;
    current().state = State::WAITS;
    if (++w.arrived == w.present) {
        finish_block(w);
    } else {
        yield(State::WAITS, is_of_cluster ? "its cluster" : "its block");
    }
}

void perform(const Copy& copy) {
    memcpy(copy.to, copy.from, copy.copied);
    memset(static_cast<unsigned char*>(copy.to) + copy.copied, 0, copy.bytes - copy.copied);
}

void end_of_thread() {
    Worker& w = worker();
    Fiber& own = current();
    own.state = State::ENDED;
    Warp& warp = *own.warp;
    warp.present &= ~(1u << own.lane);
    if (warp.arrived && (warp.mask & warp.present) == warp.arrived) finish_warp(warp);
    w.present--;
    if (w.arrived > 0 && w.arrived == w.present) finish_block(w);
    emulated_switch(&own.stack_pointer, w.stack_pointer);
    abort();
}

void begin_of_thread() {
    const Launch& launch = *worker().launch;
    launch.kernel->call(launch.args);
    end_of_thread();
}

// The last word of a thread's stack, which it must not reach.
uint64_t* end_of_stack(Worker& w, uint32_t i) { return reinterpret_cast<uint64_t*>(w.stacks + STACK * i); }

void start(Worker& w, uint32_t i) {
    Fiber& fiber = w.fibers[i];
    fiber.index = {i, 0, 0};
    fiber.lane = i % 32;
    fiber.block = &w;
    fiber.warp = &w.warps[i / 32];
    fiber.state = State::READY;
    fiber.copies.clear(), fiber.open_copies.clear(), fiber.products.clear(), fiber.open_products.clear();
    // Six registers, then where to start; the stack is aligned as after a call.
    void** top = reinterpret_cast<void**>(w.stacks + STACK * (i + 1)) - 2;
    *top = reinterpret_cast<void*>(begin_of_thread);
    memset(top - 6, 0, 6 * sizeof(void*));
    fiber.stack_pointer = top - 6;
    *end_of_stack(w, i) = STACK_END;
}

// Runs a thread until it waits; returns whether it has gone on.
bool advance(Worker& w, Fiber& fiber) {
    uint64_t events = w.events;
    emulated_thread = &fiber;
    emulated_switch(&w.stack_pointer, fiber.stack_pointer);
    emulated_thread = nullptr;
    return fiber.state != State::POLLS || w.events != events;
}

bool run_block(Worker& w) {
    uint32_t threads = w.size.x, warps = (threads + 31) / 32;
    size_t end = std::min(w.launch->shared + GUARD, SHARED_BYTES);
    memset(shared, UNWRITTEN, end);
    if (w.of_module.begin) memset(w.of_module.begin, UNWRITTEN, w.of_module.bytes);
    w.present = threads, w.arrived = 0, w.has_failed = false, w.events = 0;
    w.barriers.clear();
    for (uint32_t i = 0; i < warps; i++) {
        uint32_t lanes = std::min(32u, threads - 32 * i);
        w.warps[i] = {lanes == 32 ? ~0u : (1u << lanes) - 1, 0, 0, nullptr, {}, &w.fibers[32 * i]};
    }
    for (uint32_t i = 0; i < threads; i++) start(w, i);
    bool is_backward = w.is_early = (w.index.x + w.index.y + w.index.z) % 2;
    while (w.present > 0 && !w.has_failed) {
        bool has_gone_on = false;
        for (uint32_t n = 0; n < warps && !w.has_failed; n++) {
            uint32_t warp = is_backward ? warps - 1 - n : n, first = 32 * warp, lanes = std::min(32u, threads - first);
            for (bool again = true; again;) {
                again = false;
                for (uint32_t m = 0; m < lanes && !w.has_failed; m++) {
                    Fiber& fiber = w.fibers[first + (is_backward ? lanes - 1 - m : m)];
                    if (fiber.state == State::READY || fiber.state == State::POLLS) again |= advance(w, fiber);
                }
                has_gone_on |= again;
            }
        }
        if (!has_gone_on && !w.has_failed) {
            for (uint32_t i = 0; i < threads; i++) {
                if (w.fibers[i].state == State::ENDED) continue;
                std::string what = std::string("waits for ") + w.fibers[i].waits_for + " without end";
                emulated_thread = &w.fibers[i];
                say(w, what.c_str());
                emulated_thread = nullptr;
                break;
            }
            w.has_failed = true;
        }
    }
    if (std::any_of(shared + w.launch->shared, shared + end, [](unsigned char byte) { return byte != UNWRITTEN; })) {
        say(w, "writes beyond its shared memory");
        w.has_failed = true;
    }
    for (const auto& [at, barrier] : w.barriers) {
        if (w.has_failed || !(barrier.is_expected || barrier.started > 0)) continue;
        say(w, "ends before its bulk copies");
        w.has_failed = true;
    }
    for (uint32_t i = 0; i < threads; i++) {
        if (*end_of_stack(w, i) == STACK_END) continue;
        say(w, "a thread needs more stack than it has");
        w.has_failed = true;
        break;
    }
    // Blocks of the cluster that still read it are too late.
    if (w.cluster) memset(shared, UNWRITTEN, end);
    return !w.has_failed;
}

// Runs the blocks of a rank of all clusters.
bool run_rank(const Launch& launch, uint32_t rank, std::vector<std::unique_ptr<Cluster>>& clusters) {
    if (!own_worker) own_worker = std::make_unique<Worker>();
    Worker& w = *own_worker;
    w.launch = &launch, w.rank = rank, w.grid = launch.grid, w.size = launch.size;
    w.of_module = {reinterpret_cast<const void*>(launch.kernel->call), nullptr, 0};
    dl_iterate_phdr(find_static_memory, &w.of_module);
    uint32_t depth = launch.grid.z / launch.cluster, number = 0;
    bool is_right = true;
    for (uint32_t z = 0; z < depth; z++) {
        for (uint32_t y = 0; y < launch.grid.y; y++) {
            for (uint32_t x = 0; x < launch.grid.x; x++, number++) {
                w.index = {x, y, z * launch.cluster + rank};
                w.cluster = clusters.empty() ? nullptr : clusters[number].get();
                if (w.cluster) {
                    w.cluster->memories[rank] = shared;
                    w.cluster->all.arrive_and_wait();
                }
                is_right &= run_block(w);
                if (w.cluster) w.cluster->all.arrive_and_drop();
                if (!is_right && !w.cluster) return false;
            }
        }
    }
    return is_right;
}

// Tells which kernel was at work, then what the signal does without this function.
void report(int signal, siginfo_t* info, void*) {
    if (own_worker && emulated_thread) {
        char what[64];
        snprintf(what, sizeof what, "no memory at %p", info->si_addr);
        say(*own_worker, what);
    }
    ::signal(signal, SIG_DFL);
    raise(signal);
}

} // namespace

[[noreturn]] void fail(const char* what) {
    Worker& w = worker();
    say(w, what);
    w.has_failed = true;
    yield(State::ENDED, "nothing");
    abort();
}

void need_all(uint32_t there) {
    if (there != ~0u) fail("lanes have ended that a product needs");
}

void together(uint32_t mask, void* argument, OfLanes of) {
    Fiber& own = current();
    Warp& warp = *own.warp;
    if (warp.arrived == 0) {
        warp.mask = mask, warp.of = of;
    } else if (warp.mask != mask || warp.of != of) {
        fail("lanes of a warp are at different instructions");
    }
    warp.arguments[own.lane] = argument;
    warp.arrived |= 1u << own.lane;
    own.state = State::WAITS;
    if (warp.arrived == (mask & warp.present)) {
        finish_warp(warp);
    } else {
        yield(State::WAITS, "its warp");
    }
}

void sync_block() { sync(false); }

void sync_cluster() {
    if (!worker().cluster) fail("a block without a cluster waits for it");
    sync(true);
}

uint32_t shared_address(const void* at) {
    return uint32_t(static_cast<const unsigned char*>(at) - shared) + FIRST_ADDRESS;
}

void* shared_pointer(uint32_t address) { return shared + std::ptrdiff_t(int32_t(address - FIRST_ADDRESS)); }

float load_of_block(uint32_t address, uint32_t rank) {
    Worker& w = worker();
    if (!w.cluster || rank >= w.cluster->memories.size()) fail("no such block in the cluster");
    float value;
    memcpy(&value, w.cluster->memories[rank] + (address - FIRST_ADDRESS), sizeof value);
    return value;
}

void copy_later(uint32_t to, const void* from, uint32_t bytes, uint32_t copied) {
    if (to % bytes || (copied && reinterpret_cast<uintptr_t>(from) % bytes)) fail("an asynchronous copy is not aligned");
    Copy copy = {shared_pointer(to), from, bytes, copied};
    if (worker().is_early) return perform(copy);
    current().open_copies.push_back(copy);
}

void commit_copies() {
    Fiber& own = current();
    own.copies.push_back(std::move(own.open_copies));
    own.open_copies.clear();
}

void wait_for_copies(size_t pending) {
    Fiber& own = current();
    for (; own.copies.size() > pending; own.copies.pop_front()) {
        for (const Copy& copy : own.copies.front()) perform(copy);
    }
}

void multiply_later(const LaterProduct& product) {
    LaterProduct own = product;
    if (worker().is_early) return together(~0u, &own, multiply_warp);
    current().open_products.push_back(own);
}

void commit_products() {
    Fiber& own = current();
    own.products.push_back(std::move(own.open_products));
    own.open_products.clear();
}

void wait_for_products(size_t pending) {
    Fiber& own = current();
    for (; own.products.size() > pending; own.products.pop_front()) {
        for (LaterProduct& product : own.products.front()) together(~0u, &product, multiply_warp);
    }
}

// What a barrier's bytes in shared memory are, so that what overwrites them is found.
constexpr uint64_t BARRIER = 0x7272656972726162;

void init_barrier(uint32_t barrier) {
    if (barrier % 8) fail("a barrier is not aligned");
    worker().barriers[barrier] = {};
    memcpy(shared_pointer(barrier), &BARRIER, sizeof BARRIER);
}

Barrier& barrier_at(uint32_t barrier) {
    auto found = worker().barriers.find(barrier);
    if (found == worker().barriers.end()) fail("a barrier is not initialised");
    if (memcmp(shared_pointer(barrier), &BARRIER, sizeof BARRIER) != 0) fail("a barrier is overwritten");
    return found->second;
}

void expect_bytes(uint32_t barrier, uint32_t bytes) {
    Barrier& b = barrier_at(barrier);
    if (b.is_expected) fail("bytes are expected twice at a barrier");
    b.is_expected = true, b.expected = bytes;
    worker().events++;
}

void copy_bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    if (to % 16 || bytes % 16 || reinterpret_cast<uintptr_t>(from) % 16) fail("a bulk copy is not aligned");
    Barrier& b = barrier_at(barrier);
    b.started += bytes;
    Copy copy = {shared_pointer(to), from, bytes, bytes};
    if (worker().is_early) return perform(copy);
    b.copies.push_back(copy);
}

void copy_panel(uint32_t to, const void* map, uint32_t col, uint32_t row, uint32_t barrier) {
    TensorMap panel;
    memcpy(&panel, map, sizeof panel);
    if (to % 1024 || reinterpret_cast<uintptr_t>(map) % 64) fail("a panel is not aligned");
    if (col % 8 || panel.cols % 8) fail("a panel has units that are not whole");
    Barrier& b = barrier_at(barrier);
    for (uint32_t i = 0; i < panel.box_rows; i++) {
        for (uint32_t j = 0; j < panel.box_cols; j += 8) {
            uint32_t address = to + (i * panel.box_cols + j) * 2;
            bool is_there = row + i < panel.rows && col + j < panel.cols;
            const void* from = panel.at + (is_there ? (row + i) * panel.pitch + (col + j) * 2 : 0);
            Copy copy = {shared_pointer(address ^ (address >> 7 & 7) << 4), from, 16, is_there ? 16u : 0u};
            if (worker().is_early) {
                perform(copy);
            } else {
                b.copies.push_back(copy);
            }
        }
    }
    b.started += panel.box_rows * panel.box_cols * 2;
}

void wait_for_copy(uint32_t barrier, uint32_t phase) {
    Barrier& b = barrier_at(barrier);
    while (b.phase % 2 == phase % 2) {
        if (b.is_expected && b.started == b.expected) {
            for (const Copy& copy : b.copies) perform(copy);
            b = {b.phase + 1, false, 0, 0, {}};
            worker().events++;
        } else {
            yield(State::POLLS, "a bulk copy");
        }
    }
}

bool run(const Launch& launch) {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = report;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, nullptr);
    });
    uint64_t threads = uint64_t(launch.size.x) * launch.size.y * launch.size.z;
    if (launch.size.y != 1 || launch.size.z != 1 || threads == 0 || threads > MOST_THREADS || launch.shared > SHARED_BYTES
        || launch.cluster == 0 || launch.grid.z % launch.cluster) {
        fprintf(stderr, "kernel %s: blocks of this size cannot be launched\n", launch.kernel->name);
        return false;
    }
    std::vector<std::unique_ptr<Cluster>> clusters;
    if (launch.cluster == 1) return run_rank(launch, 0, clusters);
    uint64_t count = uint64_t(launch.grid.x) * launch.grid.y * (launch.grid.z / launch.cluster);
    for (uint64_t i = 0; i < count; i++) clusters.push_back(std::make_unique<Cluster>(launch.cluster));
    std::atomic<bool> is_right = true;
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < launch.cluster; rank++) {
        ranks.emplace_back([&, rank] {
            if (!run_rank(launch, rank, clusters)) is_right = false;
        });
    }
    for (std::thread& rank : ranks) rank.join();
    return is_right;
}

} // namespace emulated
