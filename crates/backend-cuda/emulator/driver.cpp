// The functions of the CUDA driver that the backend calls, of cards that are emulated on the processor.
//
// Everything happens at once: a queued copy or launch has ended when the function that queues it returns. The card's memory ends at
// pages that cannot be read or written. Environment variables of the process: `EMULATED_CAPABILITY` (90: compute capability 9.0),
// `EMULATED_MEMORY` (bytes of all cards), `EMULATED_LAUNCHES` (so many, then they are lost), `EMULATED_CARDS` (2),
// `EMULATED_MULTIPROCESSORS` (4 of each, in one part).
#include "blocks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <vector>

using emulated::Kernel;

namespace {

// Values of the driver's API.
enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    UNKNOWN = 999,
};
constexpr struct {
    Result result;
    const char *name, *text;
} RESULTS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

constexpr int API = 13000;
constexpr size_t PAGE = 4096;

uint64_t setting(const char* name, uint64_t otherwise) {
    const char* text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

uint64_t capability() { return setting("EMULATED_CAPABILITY", 90); }

// Bytes of shared memory of a multiprocessor. A block can have all but what is reserved.
constexpr int RESERVED = 1 << 10;
int shared_memory() { return (capability() == 80 ? 164 : 228) << 10; }

int cards() { return int(setting("EMULATED_CARDS", 2)); }

int multiprocessors() { return int(setting("EMULATED_MULTIPROCESSORS", 4)); }

uint64_t memory() { return setting("EMULATED_MEMORY", 16ull << 30); }

struct Allocation {
    void* start;
    size_t mapped, bytes;
};

std::mutex lock;
std::map<uint64_t, Allocation> allocations;
uint64_t used = 0;
std::atomic<uint64_t> launches = 0;
// What has gone wrong: every later call fails in the same way.
std::atomic<Result> broken = SUCCESS;

// What is queued: it tells whether it has gone well.
using Operation = std::function<Result()>;
using Graph = std::vector<Operation>;

struct Stream {
    bool is_capturing = false;
    Graph graph;
};

struct Event {
    std::chrono::steady_clock::time_point at;
};

struct Module {
    void* library;
    const Kernel* kernels;
    size_t count;
};

// Runs an operation, or records it.
Result queue(Stream* stream, Operation operation) {
    if (broken != SUCCESS) return broken;
    if (!stream->is_capturing) return operation();
    return stream->graph.push_back(std::move(operation)), SUCCESS;
}

Result run(emulated::Launch launch, const std::vector<unsigned char>& args) {
    if (launches++ >= setting("EMULATED_LAUNCHES", ~0ull)) return broken = UNKNOWN;
    launch.args = args.data();
    return emulated::run(launch) ? SUCCESS : broken = LAUNCH_FAILED;
}

Result copy(Stream* stream, void* to, const void* from, size_t bytes) {
    return queue(stream, [=] { return memcpy(to, from, bytes), SUCCESS; });
}

std::string folder() {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(folder), &info)) return ".";
    std::string path = info.dli_fname;
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

} // namespace

bool emulated::has_bulk_copies() { return capability() == 90; }

// Of the driver's structs, what is read here.
struct LaunchAttribute {
    int id;
    char pad[4];
    union {
        char size[64];
        unsigned cluster[3];
    };
};
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    Stream* stream;
    LaunchAttribute* attributes;
    unsigned count;
};
constexpr int CLUSTER_DIMENSION = 4;

extern "C" {

Result cuGetErrorName(Result result, const char** to) {
    for (auto& known : RESULTS) {
        if (known.result == result) return *to = known.name, SUCCESS;
    }
    return INVALID_VALUE;
}
Result cuGetErrorString(Result result, const char** to) {
    for (auto& known : RESULTS) {
        if (known.result == result) return *to = known.text, SUCCESS;
    }
    return INVALID_VALUE;
}

Result cuInit(unsigned) { return SUCCESS; }
Result cuDriverGetVersion(int* version) { return *version = API, SUCCESS; }
Result cuDeviceGetCount(int* count) { return *count = cards(), SUCCESS; }
Result cuDeviceGet(int* device, int ordinal) {
    return *device = ordinal, ordinal >= 0 && ordinal < cards() ? SUCCESS : INVALID_DEVICE;
}
Result cuDeviceGetName(char* name, int size, int) { return snprintf(name, size, "emulated card"), SUCCESS; }
Result cuDeviceGetPCIBusId(char* id, int size, int device) { return snprintf(id, size, "0000:%02x:00.0", device), SUCCESS; }
Result cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = memory(), SUCCESS; }
Result cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
    case 16: *value = multiprocessors(); break;
    case 75: *value = int(capability() / 10); break;  // compute capability
    case 76: *value = int(capability() % 10); break;
    case 81: *value = shared_memory(); break;       // shared memory of a multiprocessor
    case 82: *value = 65536; break;                 // its registers
    case 97: *value = shared_memory() - RESERVED; break; // shared memory of a block
    case 111: *value = RESERVED; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(void** context, int) { return *context = &lock, SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
Result cuCtxSetCurrent(void*) { return SUCCESS; }

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    std::lock_guard guard(lock);
    *total = memory(), *free = *total - std::min<uint64_t>(*total, used);
    return SUCCESS;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    if (broken != SUCCESS) return broken;
    std::lock_guard guard(lock);
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > memory() - std::min(memory(), used)) return OUT_OF_MEMORY;
    // It ends where a page begins that has no memory.
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    void* start = mmap(nullptr, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(static_cast<char*>(start) + pages, PAGE, PROT_NONE);
    *address = reinterpret_cast<uint64_t>(start) + (pages - bytes) / 256 * 256;
    allocations[*address] = {start, pages + PAGE, bytes};
    used += bytes;
    return SUCCESS;
}
Result cuMemFree_v2(uint64_t address) {
    std::lock_guard guard(lock);
    auto found = allocations.find(address);
    if (found == allocations.end()) return INVALID_VALUE;
    munmap(found->second.start, found->second.mapped);
    used -= found->second.bytes;
    allocations.erase(found);
    return SUCCESS;
}
Result cuMemHostAlloc(void** address, size_t bytes, unsigned) {
    *address = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    return *address ? SUCCESS : OUT_OF_MEMORY;
}
Result cuMemFreeHost(void* address) { return free(address), SUCCESS; }
Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, Stream*) {
    if (broken != SUCCESS) return broken;
    // Fresh memory is zero: writing it would take as much of the machine's.
    auto* at = reinterpret_cast<unsigned char*>(address);
    std::lock_guard guard(lock);
    if (auto found = allocations.find(address); value == 0 && found != allocations.end() && found->second.bytes == bytes) {
        madvise(found->second.start, found->second.mapped - PAGE, MADV_DONTNEED);
    } else {
        memset(at, value, bytes);
    }
    return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
    return copy(stream, reinterpret_cast<void*>(to), from, bytes);
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
    return copy(stream, to, reinterpret_cast<void*>(from), bytes);
}

Result cuStreamCreate(Stream** stream, unsigned) { return *stream = new Stream, SUCCESS; }
Result cuStreamDestroy_v2(Stream* stream) { return delete stream, SUCCESS; }
Result cuStreamSynchronize(Stream*) { return broken; }
Result cuLaunchHostFunc(Stream* stream, void (*function)(void*), void* data) {
    return queue(stream, [=] { return function(data), SUCCESS; });
}
Result cuStreamBeginCapture_v2(Stream* stream, int) {
    stream->is_capturing = true;
    stream->graph.clear();
    return SUCCESS;
}
Result cuStreamEndCapture(Stream* stream, Graph** graph) {
    stream->is_capturing = false;
    return *graph = new Graph(std::move(stream->graph)), SUCCESS;
}
Result cuGraphInstantiateWithFlags(Graph** executable, const Graph* graph, unsigned long long) { return *executable = new Graph(*graph), SUCCESS; }
Result cuGraphDestroy(Graph* graph) { return delete graph, SUCCESS; }
Result cuGraphExecDestroy(Graph* graph) { return delete graph, SUCCESS; }
Result cuGraphLaunch(const Graph* graph, Stream*) {
    for (const Operation& operation : *graph) {
        if (Result result = broken != SUCCESS ? broken.load() : operation()) return result;
    }
    return SUCCESS;
}

Result cuEventCreate(Event** event, unsigned) { return *event = new Event, SUCCESS; }
Result cuEventRecord(Event* event, Stream*) { return event->at = std::chrono::steady_clock::now(), broken; }
Result cuEventSynchronize(Event*) { return broken; }
// What is queued has happened.
Result cuStreamWaitEvent(Stream*, Event*, unsigned) { return broken; }
Result cuEventElapsedTime(float* milliseconds, const Event* start, const Event* end) {
    return *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count(), SUCCESS;
}
Result cuEventElapsedTime_v2(float* milliseconds, const Event* start, const Event* end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
Result cuEventDestroy_v2(Event* event) { return delete event, SUCCESS; }

// Finds which of the committed fat binaries it is, and opens the library of that name beside this one.
Result cuModuleLoadData(Module** module, const void* image) {
    uint16_t header;
    uint64_t bytes;
    memcpy(&header, static_cast<const char*>(image) + 6, sizeof header);
    memcpy(&bytes, static_cast<const char*>(image) + 8, sizeof bytes);
    std::string here = folder();
    std::ifstream list(here + "/modules");
    for (std::string name, path; list >> name && std::getline(list >> std::ws, path);) {
        std::ifstream file(path, std::ios::binary);
        std::string content{std::istreambuf_iterator<char>(file), {}};
        if (content.size() != header + bytes || memcmp(content.data(), image, content.size())) continue;
        void* library = dlopen((here + "/" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) return fprintf(stderr, "%s\n", dlerror()), INVALID_IMAGE;
        auto* kernels = static_cast<const Kernel*>(dlsym(library, "emulated_kernels"));
        auto* count = static_cast<const size_t*>(dlsym(library, "emulated_count"));
        return *module = new Module{library, kernels, *count}, SUCCESS;
    }
    fprintf(stderr, "an image that is not in kernels/compiled: compile the program again, then %s\n", here.c_str());
    return INVALID_IMAGE;
}
Result cuTensorMapEncodeTiled(emulated::TensorMap* map, int type, uint32_t rank, const unsigned char* at, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int, int) {
    constexpr int F16 = 6, SWIZZLE_128B = 3;
    bool is_known = type == F16 && rank == 2 && steps[0] == 1 && steps[1] == 1 && interleave == 0 && swizzle == SWIZZLE_128B;
    bool is_aligned = reinterpret_cast<uintptr_t>(map) % 64 == 0 && reinterpret_cast<uintptr_t>(at) % 16 == 0 && strides[0] % 16 == 0;
    auto is_size = [](uint64_t size) { return size > 0 && size <= uint64_t(1) << 32; };
    if (!is_known || !is_aligned || !is_size(sizes[0]) || !is_size(sizes[1]) || box[0] != 64 || box[1] > 256) return INVALID_VALUE;
    *map = {at, sizes[0], sizes[1], strides[0], box[0], box[1]};
    return SUCCESS;
}
Result cuModuleUnload(Module* module) { return delete module, SUCCESS; }
Result cuModuleGetFunction(const Kernel** function, const Module* module, const char* name) {
    for (size_t i = 0; i < module->count; i++) {
        if (!strcmp(module->kernels[i].name, name)) return *function = &module->kernels[i], SUCCESS;
    }
    return NOT_FOUND;
}
Result cuFuncGetAttribute(int* value, int attribute, const Kernel*) {
    switch (attribute) {
    case 0: *value = 1024; break; // threads of a block
    case 1: *value = 0; break;    // static shared memory
    case 4: *value = 64; break;   // registers
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
Result cuFuncGetParamInfo(const Kernel* kernel, size_t index, size_t* offset, size_t* bytes) {
    return *offset = 0, *bytes = kernel->args, index == 0 ? SUCCESS : INVALID_VALUE;
}
Result cuFuncSetAttribute(const Kernel*, int, int) { return SUCCESS; }
Result cuOccupancyMaxActiveClusters(int* clusters, const Kernel*, const LaunchConfig* config) {
    // Two blocks of a multiprocessor, and clusters of 16 at most.
    unsigned size = std::max(1u, config->grid[2]);
    return *clusters = size > 16 ? 0 : 2 * multiprocessors() / int(size), SUCCESS;
}
Result cuLaunchKernelEx(const LaunchConfig* config, const Kernel* kernel, void** params, void**) {
    if (int(config->shared) > shared_memory() - RESERVED) return INVALID_VALUE;
    emulated::Launch launch = {kernel, nullptr, {}, {}, 1, config->shared};
    memcpy(&launch.grid, config->grid, sizeof launch.grid);
    memcpy(&launch.size, config->block, sizeof launch.size);
    for (unsigned i = 0; i < config->count; i++) {
        if (config->attributes[i].id == CLUSTER_DIMENSION) launch.cluster = config->attributes[i].cluster[2];
    }
    auto* args = static_cast<const unsigned char*>(params[0]);
    std::vector<unsigned char> own(args, args + kernel->args);
    return queue(config->stream, [launch, own = std::move(own)] { return run(launch, own); });
}

} // extern "C"
