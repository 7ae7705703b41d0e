/*
 * A libnvidia-ml.so.1 for tests: answers like driver 580.159.04 with H200s, and fails as it is told to.
 *
 * NVML_STUB names its control file, which is read again whenever it is replaced. One line each:
 *
 *   gpus N                    physical GPUs, when NVML is initialised (16 at most)
 *   hotplug 1                 and at once, for who has it open
 *   without N                 physical GPU N is not there; a process that had it open gets code 15
 *   generation N              another one than when the library was loaded: every call answers 18 from then on
 *   now_us N                  time stands there; without it time is the machine's
 *   costs 1                   calls burn as much CPU as was measured on an H200
 *   text KEY TEXT             driver, library, name, vbios
 *   set GPU KEY VALUE         a value; keys stand where they are used: value(..., "key", ...)
 *   on GPU CALL ACTION [ARG]  return CODE | hang | abort | segv | exit CODE | print | slow MICROSECONDS
 *   process GPU PID BYTES SM  a compute process
 *   xid NUMBER GPU XID        an event; delivered to whoever registered before NUMBER appeared
 *
 * GPU is a number or *. CALL is a function without "nvml", with * at its end for all that begin so;
 * DeviceGetFieldValues:186 and GpmMetricsGet:2 for one value of many; @readings for all but those
 * that say which GPU it is. The last line that matches holds. A hang ends when its line goes.
 *
 * NVML_STUB with ".shared" at its end is a file in which calls are counted and counters kept.
 * Nothing that changes a GPU is here: a program that calls it fails.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 18, ARGUMENT_VERSION_MISMATCH = 25
};
enum { GPUS = 16, LINKS = 18, RING = 71, POWER_RING = 119, REASONS = 9, GPM = 98, NO_GPU = -1, ANY = -2 };
enum { DOUBLE = 0, UINT = 1, ULL = 3, SINT = 5 };

/* ---- what NVML's ABI is made of ---- */

typedef struct { int physical; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;
typedef union { double d; unsigned ui; unsigned long long ull; int si; } value_t;
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    value_t value;
} field_t;
typedef struct { unsigned long long timestamp; value_t value; } sample_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned pid; unsigned long long timestamp; unsigned sm, memory, encoder, decoder; } process_sample_t;
typedef struct { unsigned version; unsigned char cluster[16]; int status; unsigned clique; unsigned char state; unsigned health; unsigned char summary; } fabric_t;
typedef struct { device_t *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_t;
typedef struct { unsigned id; int code; double value; const char *short_name, *long_name, *unit; } metric_t;
typedef struct { unsigned long long us; double sums[GPM]; int physical; } gpm_sample_t;
typedef struct { unsigned version, count; gpm_sample_t *from, *to; metric_t metrics[]; } metrics_t;
typedef struct { unsigned version, supported; } support_t;
typedef struct { unsigned version; int margin; } margin_t;
typedef struct { unsigned version; int sensor, degrees; } temperature_t;
typedef struct { unsigned long long reference, violation; } violation_t;
typedef struct { long cursor; unsigned registered; } event_set_t;

/* ---- what the control file says ---- */

typedef struct { int gpu; char call[64]; char action[8]; long argument; } rule_t;
typedef struct { int gpu; char key[48]; double value; } setting_t;
typedef struct { int gpu; unsigned pid; double bytes, sm; } running_t;
typedef struct { long number; int gpu; unsigned xid; } xid_t;

static struct {
    int gpus, generation, costs, hotplug;
    unsigned without;
    unsigned long long now_us;
    char driver[80], library[80], name[96], vbios[32];
    rule_t rules[128];
    setting_t settings[1024];
    running_t running[64];
    xid_t xids[256];
    int rule_count, setting_count, running_count, xid_count;
} control;

/* ---- what outlives a process ---- */

typedef struct { char name[56]; uint64_t count; } counted_t;
typedef struct {
    uint64_t us, ring_at_us;
    double energy_mj, pcie_sent, pcie_received, link_sent_kib, link_received_kib;
    double reason_ns[REASONS], gpm[GPM];
    uint64_t ring_us[RING];
    double ring_gpu[RING], ring_memory[RING];
} kept_t;
static struct shared { counted_t calls[256]; kept_t gpus[GPUS]; } *shared;

static char control_path[4096];
static struct stat control_seen;
static int initialised, loaded_generation, gpu_count;
static device_t devices[GPUS], *listed[GPUS];
static double gpm_values[GPUS][GPM];

static unsigned long long machine_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

static unsigned long long now_us(void) { return control.now_us ? control.now_us : machine_us(); }

static int gpu_of(const char *text) { return *text == '*' ? ANY : *text == '-' ? NO_GPU : atoi(text); }

static double value(int gpu, const char *key, double otherwise) {
    for (int i = control.setting_count - 1; i >= 0; i--) {
        setting_t *found = &control.settings[i];
        if ((found->gpu == gpu || found->gpu == ANY) && !strcmp(found->key, key)) return found->value;
    }
    return otherwise;
}

static double numbered(int gpu, const char *kind, unsigned number, double otherwise) {
    char key[48];
    snprintf(key, sizeof key, "%s:%u", kind, number);
    return value(gpu, key, otherwise);
}

static unsigned whole(double number) { return number < 0 ? (unsigned)(int)number : (unsigned)(unsigned long long)number; }

/* ---- counters grow with time ---- */

static const unsigned long long REASON_BITS[REASONS] = {1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100};

static unsigned long long reasons(int gpu) { return (unsigned long long)value(gpu, "reasons", 1); }

static double gpm_value(int gpu, unsigned id) { return gpm_values[gpu][id]; }

/* Looked up once: they are used in every call. */
static void look_up_gpm(void) {
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (unsigned id = 0; id < GPM; id++)
            gpm_values[gpu][id] = numbered(gpu, "gpm", id, id == 10 ? 0.00038 : id == 20 ? 2.05 : id == 21 ? 1.59 : 0);
}

static void grow_rings(kept_t *kept, int gpu, uint64_t until) {
    if (until - kept->ring_at_us > RING * 200000ull) kept->ring_at_us = until - RING * 200000ull;
    while (kept->ring_at_us + 200000 <= until) {
        kept->ring_at_us += 200000;
        unsigned at = (unsigned)(kept->ring_at_us / 200000 % RING);
        kept->ring_us[at] = kept->ring_at_us;
        kept->ring_gpu[at] = value(gpu, "utilization", 0);
        kept->ring_memory[at] = value(gpu, "memory_utilization", 0);
    }
}

static void advance(int gpu) {
    kept_t *kept = &shared->gpus[gpu];
    uint64_t until = now_us();
    if (!kept->us) {
        kept->us = until;
        kept->energy_mj = 2557324;
        kept->ring_at_us = (until - RING * 200000ull) / 200000 * 200000;
    }
    if (until > kept->us) {
        double us = (double)(until - kept->us);
        kept->energy_mj += value(gpu, "power_mw", 79881) * us / 1e6;
        kept->pcie_sent += value(gpu, "pcie_sent_bytes_per_second", gpm_value(gpu, 20) * 1048576) * us / 1e6;
        kept->pcie_received += value(gpu, "pcie_received_bytes_per_second", gpm_value(gpu, 21) * 1048576) * us / 1e6;
        kept->link_sent_kib += gpm_value(gpu, 61) * 1024 * us / 1e6 / LINKS;
        kept->link_received_kib += gpm_value(gpu, 60) * 1024 * us / 1e6 / LINKS;
        for (int i = 0; i < REASONS; i++)
            if (reasons(gpu) & REASON_BITS[i]) kept->reason_ns[i] += us * 1e3;
        for (unsigned i = 0; i < GPM; i++) {
            double now = gpm_value(gpu, i);
            if (isfinite(now)) kept->gpm[i] += now * us;
        }
        kept->us = until;
    }
    grow_rings(kept, gpu, until);
}

/* ---- reading the control file ---- */

static void read_line(char *line) {
    char who[16], first[96], second[96];
    double number = 0, more = 0;
    long argument = 0;
    int at = 0;
    if (sscanf(line, "gpus %d", &control.gpus) == 1 || sscanf(line, "generation %d", &control.generation) == 1) return;
    if (sscanf(line, "hotplug %d", &control.hotplug) == 1) return;
    if (sscanf(line, "costs %d", &control.costs) == 1 || sscanf(line, "now_us %llu", &control.now_us) == 1) return;
    if (sscanf(line, "without %ld", &argument) == 1) control.without |= 1u << argument;
    if (sscanf(line, "text %15s %n", who, &at) == 1 && at) {
        char *into = !strcmp(who, "driver") ? control.driver : !strcmp(who, "library") ? control.library
                     : !strcmp(who, "name") ? control.name : control.vbios;
        snprintf(into, into == control.vbios ? sizeof control.vbios : 80, "%s", line + at);
    } else if (sscanf(line, "set %15s %47s %lf", who, first, &number) == 3 && control.setting_count < 1024) {
        setting_t *into = &control.settings[control.setting_count++];
        into->gpu = gpu_of(who);
        into->value = number;
        snprintf(into->key, sizeof into->key, "%.47s", first);
    } else if (sscanf(line, "on %15s %63s %7s %ld", who, first, second, &argument) >= 3 && control.rule_count < 128) {
        rule_t *into = &control.rules[control.rule_count++];
        into->gpu = gpu_of(who);
        into->argument = argument;
        snprintf(into->call, sizeof into->call, "%.63s", first);
        snprintf(into->action, sizeof into->action, "%.7s", second);
    } else if (sscanf(line, "process %15s %ld %lf %lf", who, &argument, &number, &more) >= 3 && control.running_count < 64) {
        control.running[control.running_count++] = (running_t){gpu_of(who), (unsigned)argument, number, more};
    } else if (sscanf(line, "xid %ld %15s %lf", &argument, who, &number) == 3 && control.xid_count < 256) {
        control.xids[control.xid_count++] = (xid_t){argument, gpu_of(who), (unsigned)number};
    }
}

static void read_control(void) {
    FILE *file = fopen(control_path, "r");
    char line[256];
    memset(&control, 0, sizeof control);
    control.gpus = 2;
    strcpy(control.driver, "580.159.04");
    strcpy(control.library, "13.580.159.04");
    strcpy(control.name, "NVIDIA H200");
    strcpy(control.vbios, "96.00.BC.00.02");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        read_line(line);
    }
    if (file) fclose(file);
    look_up_gpm();
}

static void list_gpus(void) {
    gpu_count = 0;
    for (int i = 0; i < control.gpus && i < GPUS; i++)
        if (!(control.without >> i & 1)) listed[gpu_count++] = &devices[i];
}

/* Time that passed before a change is counted with what held until then. */
static void follow_control(void) {
    struct stat found;
    if (stat(control_path, &found) || (found.st_ino == control_seen.st_ino && found.st_size == control_seen.st_size &&
                                       found.st_mtim.tv_sec == control_seen.st_mtim.tv_sec &&
                                       found.st_mtim.tv_nsec == control_seen.st_mtim.tv_nsec))
        return;
    for (int i = 0; i < control.gpus && i < GPUS; i++) advance(i);
    control_seen = found;
    read_control();
    if (control.hotplug) list_gpus();
}

__attribute__((constructor)) static void load(void) {
    char path[4200];
    snprintf(control_path, sizeof control_path, "%s", getenv("NVML_STUB") ? getenv("NVML_STUB") : "/nonexistent");
    snprintf(path, sizeof path, "%s.shared", control_path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int is_there = file >= 0 && !ftruncate(file, sizeof *shared);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  is_there ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, is_there ? file : -1, 0);
    if (file >= 0) close(file);
    for (int i = 0; i < GPUS; i++) devices[i].physical = i;
    read_control();
    stat(control_path, &control_seen);
    loaded_generation = control.generation;
}

/* ---- entering a call ---- */

static void count(const char *name) {
    for (int i = 0; i < 256; i++) {
        if (!shared->calls[i].name[0]) snprintf(shared->calls[i].name, sizeof shared->calls[i].name, "%s", name);
        if (!strcmp(shared->calls[i].name, name)) {
            __atomic_add_fetch(&shared->calls[i].count, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

static int says_which(const char *call) {
    static const char *const NAMES[] = {"DeviceGetHandle", "DeviceGetIndex", "DeviceGetName", "DeviceGetUUID", "DeviceGetSerial",
                                        "DeviceGetPciInfo", "DeviceGetMinorNumber", "DeviceGetCount", "DeviceGetArchitecture",
                                        "DeviceGetCudaComputeCapability", "DeviceGetVbiosVersion", "DeviceGetModuleId"};
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (!strncmp(call, NAMES[i], strlen(NAMES[i]))) return 1;
    return 0;
}

static int matches(const rule_t *rule, int gpu, const char *call) {
    size_t length = strlen(rule->call);
    if (rule->gpu != ANY && rule->gpu != gpu) return 0;
    if (!strcmp(rule->call, "@readings")) return gpu >= 0 && !says_which(call);
    return rule->call[length - 1] == '*' ? !strncmp(rule->call, call, length - 1) : !strcmp(rule->call, call);
}

static const rule_t *rule_for(int gpu, const char *call) {
    for (int i = control.rule_count - 1; i >= 0; i--)
        if (matches(&control.rules[i], gpu, call)) return &control.rules[i];
    return NULL;
}

static void burn(long us) {
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* The code that a rule for this call gives, or -1 where none does. */
static int obey(int gpu, const char *call) {
    const rule_t *rule = rule_for(gpu, call);
    if (rule && !strcmp(rule->action, "hang")) {
        while (rule && !strcmp(rule->action, "hang")) {
            usleep(2000);
            follow_control();
            rule = rule_for(gpu, call);
        }
    }
    if (!rule) return -1;
    if (!strcmp(rule->action, "abort")) abort();
    if (!strcmp(rule->action, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(rule->action, "exit")) _exit((int)rule->argument);
    if (!strcmp(rule->action, "slow")) usleep((useconds_t)rule->argument);
    if (!strcmp(rule->action, "print")) {
        printf("NVML: a library that talks\n");
        fflush(stdout);
    }
    return strcmp(rule->action, "return") ? -1 : (int)rule->argument;
}

/* Without a name only what holds for all calls is checked. */
static int enter(int gpu, const char *call, long cost_us) {
    follow_control();
    if (call) {
        count(call);
        int code = obey(gpu, call);
        if (code >= 0) return code;
    }
    if (control.generation != loaded_generation) return VERSION_MISMATCH;
    if (!initialised) return UNINITIALIZED;
    if (gpu >= 0) {
        if (control.without >> gpu & 1) return GPU_IS_LOST;
        advance(gpu);
    }
    if (control.costs) burn(cost_us);
    return SUCCESS;
}

#define API __attribute__((visibility("default"))) int
#define SYSTEM(name, cost)                                   \
    do {                                                     \
        int code_ = enter(NO_GPU, name, cost);               \
        if (code_) return code_;                             \
    } while (0)
#define DEVICE(name, cost)                                   \
    if (!device) return INVALID_ARGUMENT;                    \
    const int gpu = device->physical;                        \
    do {                                                     \
        int code_ = enter(gpu, name, cost);                  \
        if (code_) return code_;                             \
    } while (0)
#define READS(name, type, cost, expression)                  \
    API nvml##name(device_t *device, type *out) {            \
        DEVICE(#name, cost);                                 \
        *out = (type)(expression);                           \
        return SUCCESS;                                      \
    }

static int copy(char *out, unsigned length, const char *text) {
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

/* ---- the library and the system ---- */

static int init(const char *call) {
    follow_control();
    count(call);
    int code = obey(NO_GPU, call);
    if (code > 0) return code;
    if (control.generation != loaded_generation) return VERSION_MISMATCH;
    if (!initialised++) list_gpus();
    return SUCCESS;
}

API nvmlInit_v2(void) { return init("Init_v2"); }
API nvmlInitWithFlags(unsigned flags) { return flags > 1 ? INVALID_ARGUMENT : init("InitWithFlags"); }

API nvmlShutdown(void) {
    SYSTEM("Shutdown", 0);
    initialised--;
    return SUCCESS;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires reset";
    case VERSION_MISMATCH: return "Driver/library version mismatch";
    case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

API nvmlSystemGetDriverVersion(char *out, unsigned length) {
    SYSTEM("SystemGetDriverVersion", 0);
    return copy(out, length, control.driver);
}

API nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    follow_control();
    count("SystemGetNVMLVersion");
    return copy(out, length, control.library); /* answers without nvmlInit too */
}

API nvmlSystemGetCudaDriverVersion(int *out) {
    SYSTEM("SystemGetCudaDriverVersion", 0);
    *out = (int)value(NO_GPU, "cuda", 13000);
    return SUCCESS;
}

API nvmlSystemGetCudaDriverVersion_v2(int *out) {
    SYSTEM("SystemGetCudaDriverVersion_v2", 0);
    *out = (int)value(NO_GPU, "cuda", 13000);
    return SUCCESS;
}

/* ---- which GPU it is ---- */

static void uuid_of(int gpu, char out[48]) { snprintf(out, 48, "GPU-5706c0de-0000-4000-8000-%012x", gpu + 1); }
static void bus_id_of(int gpu, char out[32]) { snprintf(out, 32, "00000000:%02X:00.0", 0x1b + gpu * 8); }

API nvmlDeviceGetCount_v2(unsigned *out) {
    SYSTEM("DeviceGetCount_v2", 0);
    *out = (unsigned)gpu_count;
    return SUCCESS;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **out) {
    SYSTEM(NULL, 0);
    if (index >= (unsigned)gpu_count) return INVALID_ARGUMENT;
    int code = enter(listed[index]->physical, "DeviceGetHandleByIndex_v2", 0);
    if (!code) *out = listed[index];
    return code;
}

API nvmlDeviceGetHandleByUUID(const char *uuid, device_t **out) {
    SYSTEM(NULL, 0);
    for (int i = 0; i < gpu_count; i++) {
        char own[48];
        uuid_of(listed[i]->physical, own);
        if (strcmp(own, uuid)) continue;
        int code = enter(listed[i]->physical, "DeviceGetHandleByUUID", 0);
        if (!code) *out = listed[i];
        return code;
    }
    return NOT_FOUND;
}

API nvmlDeviceGetIndex(device_t *device, unsigned *out) {
    DEVICE("DeviceGetIndex", 0);
    for (int i = 0; i < gpu_count; i++)
        if (listed[i]->physical == gpu) *out = (unsigned)i;
    return SUCCESS;
}

API nvmlDeviceGetName(device_t *device, char *out, unsigned length) {
    DEVICE("DeviceGetName", 0);
    return copy(out, length, control.name);
}

API nvmlDeviceGetUUID(device_t *device, char *out, unsigned length) {
    char uuid[48];
    DEVICE("DeviceGetUUID", 0);
    uuid_of(gpu, uuid);
    return copy(out, length, uuid);
}

API nvmlDeviceGetSerial(device_t *device, char *out, unsigned length) {
    char serial[24];
    DEVICE("DeviceGetSerial", 0);
    snprintf(serial, sizeof serial, "165002300%04d", gpu + 1);
    return copy(out, length, serial);
}

API nvmlDeviceGetVbiosVersion(device_t *device, char *out, unsigned length) {
    DEVICE("DeviceGetVbiosVersion", 0);
    return copy(out, length, control.vbios);
}

static int pci_info(device_t *device, pci_t *out) {
    DEVICE("DeviceGetPciInfo_v3", 0);
    memset(out, 0, sizeof *out);
    bus_id_of(gpu, out->bus_id);
    memcpy(out->legacy, out->bus_id + 4, 13);
    out->bus = (unsigned)(0x1b + gpu * 8);
    out->id = 0x233510de;
    out->subsystem = 0x18be10de;
    return SUCCESS;
}

API nvmlDeviceGetPciInfo_v3(device_t *device, pci_t *out) { return pci_info(device, out); }
API nvmlDeviceGetPciInfo_v2(device_t *device, pci_t *out) { return pci_info(device, out); }

READS(DeviceGetMinorNumber, unsigned, 0, gpu)
READS(DeviceGetModuleId, unsigned, 0, gpu + 1)
READS(DeviceGetArchitecture, unsigned, 0, value(gpu, "architecture", 9))

API nvmlDeviceGetNumaNodeId(device_t *device, int *out) {
    DEVICE("DeviceGetNumaNodeId", 0);
    *out = (int)value(gpu, "numa", -1);
    return *out < 0 ? NOT_SUPPORTED : SUCCESS;
}

API nvmlDeviceGetCudaComputeCapability(device_t *device, int *major, int *minor) {
    DEVICE("DeviceGetCudaComputeCapability", 0);
    *major = (int)value(gpu, "compute_major", 9);
    *minor = (int)value(gpu, "compute_minor", 0);
    return SUCCESS;
}

/* ---- gauges ---- */

API nvmlDeviceGetUtilizationRates(device_t *device, utilization_t *out) {
    DEVICE("DeviceGetUtilizationRates", 1);
    out->gpu = whole(value(gpu, "utilization", 0));
    out->memory = whole(value(gpu, "memory_utilization", 0));
    return SUCCESS;
}

#define TOTAL value(gpu, "memory_total", 150754820096.0)
#define RESERVED value(gpu, "memory_reserved", 644939776.0)
#define USED value(gpu, "memory_used", 0)

API nvmlDeviceGetMemoryInfo(device_t *device, memory_t *out) {
    DEVICE("DeviceGetMemoryInfo", 5);
    out->total = (unsigned long long)TOTAL;
    out->used = (unsigned long long)(USED + RESERVED);
    out->free = out->total - out->used;
    return SUCCESS;
}

API nvmlDeviceGetBAR1MemoryInfo(device_t *device, memory_t *out) {
    DEVICE("DeviceGetBAR1MemoryInfo", 150);
    out->total = (unsigned long long)value(gpu, "bar1_total", 274877906944.0); /* total, free, used as in memory_t */
    out->used = (unsigned long long)value(gpu, "bar1_used", 1048576);
    out->free = out->total - out->used;
    return SUCCESS;
}

READS(DeviceGetPowerUsage, unsigned, 1, whole(value(gpu, "power_average_mw", value(gpu, "power_mw", 79911))))
READS(DeviceGetPowerManagementLimit, unsigned, 1, value(gpu, "field:192", 700000))
READS(DeviceGetPowerManagementDefaultLimit, unsigned, 1, value(gpu, "field:189", 700000))
READS(DeviceGetEnforcedPowerLimit, unsigned, 1, value(gpu, "field:190", 700000))

API nvmlDeviceGetPowerManagementLimitConstraints(device_t *device, unsigned *least, unsigned *most) {
    DEVICE("DeviceGetPowerManagementLimitConstraints", 1);
    *least = whole(value(gpu, "field:187", 200000));
    *most = whole(value(gpu, "field:188", 700000));
    return SUCCESS;
}

READS(DeviceGetTotalEnergyConsumption, unsigned long long, 4000, value(gpu, "field:83", shared->gpus[gpu].energy_mj))
READS(DeviceGetPerformanceState, unsigned, 1, value(gpu, "performance_state", 0))

API nvmlDeviceGetTemperature(device_t *device, int sensor, unsigned *out) {
    DEVICE("DeviceGetTemperature", 1);
    if (sensor) return INVALID_ARGUMENT;
    *out = whole(value(gpu, "temperature", 31));
    return SUCCESS;
}

API nvmlDeviceGetTemperatureThreshold(device_t *device, int kind, unsigned *out) {
    static const unsigned DEGREES[] = {95, 89, 95, 87};
    DEVICE("DeviceGetTemperatureThreshold", 1);
    if (kind < 0 || kind > 7) return INVALID_ARGUMENT;
    if (kind > 3) return NOT_SUPPORTED;
    *out = whole(numbered(gpu, "threshold", (unsigned)kind, DEGREES[kind]));
    return SUCCESS;
}

/* graphics, SM, memory, video */
API nvmlDeviceGetClockInfo(device_t *device, int kind, unsigned *out) {
    static const unsigned MHZ[] = {345, 345, 3201, 765};
    DEVICE("DeviceGetClockInfo", 1);
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    *out = whole(numbered(gpu, "clock", (unsigned)kind, MHZ[kind]));
    return SUCCESS;
}

API nvmlDeviceGetMaxClockInfo(device_t *device, int kind, unsigned *out) {
    static const unsigned MHZ[] = {1980, 1980, 3201, 1545};
    DEVICE("DeviceGetMaxClockInfo", 1);
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    *out = whole(numbered(gpu, "max_clock", (unsigned)kind, MHZ[kind]));
    return SUCCESS;
}

READS(DeviceGetCurrentClocksThrottleReasons, unsigned long long, 1, reasons(gpu))
READS(DeviceGetSupportedClocksThrottleReasons, unsigned long long, 1, value(gpu, "supported_reasons", 0x1ff))

/* power, thermal, sync boost, board limit, low utilization, reliability: kinds 0 to 5 */
API nvmlDeviceGetViolationStatus(device_t *device, int kind, violation_t *out) {
    DEVICE("DeviceGetViolationStatus", 900);
    if (kind < 0 || kind > 11) return INVALID_ARGUMENT;
    out->reference = shared->gpus[gpu].us;
    out->violation = (unsigned long long)(kind == 0 ? shared->gpus[gpu].reason_ns[2] : kind == 1 ? shared->gpus[gpu].reason_ns[5] : 0);
    return SUCCESS;
}

#define ENGINE(name)                                                                  \
    API nvmlDeviceGet##name##Utilization(device_t *device, unsigned *out, unsigned *us) { \
        DEVICE("DeviceGet" #name "Utilization", 1);                                   \
        *out = whole(value(gpu, "engine:" #name, 0));                                 \
        *us = 200000;                                                                 \
        return SUCCESS;                                                               \
    }
ENGINE(Encoder)
ENGINE(Decoder)
ENGINE(Jpg)
ENGINE(Ofa)

READS(DeviceGetCurrPcieLinkGeneration, unsigned, 1, value(gpu, "pcie_generation", 5))
READS(DeviceGetCurrPcieLinkWidth, unsigned, 25, value(gpu, "pcie_width", 16))
READS(DeviceGetMaxPcieLinkGeneration, unsigned, 1, value(gpu, "pcie_max_generation", 5))
READS(DeviceGetMaxPcieLinkWidth, unsigned, 1, value(gpu, "pcie_max_width", 16))
READS(DeviceGetPcieReplayCounter, unsigned, 155, value(gpu, "field:94", 0))

/* blocks for 20 ms, as the real one does: sent, received */
API nvmlDeviceGetPcieThroughput(device_t *device, int direction, unsigned *out) {
    DEVICE("DeviceGetPcieThroughput", 21000);
    *out = whole(gpm_value(gpu, direction ? 21 : 20) * 1024);
    return SUCCESS;
}

API nvmlDeviceGetNvLinkState(device_t *device, unsigned link, unsigned *out) {
    DEVICE("DeviceGetNvLinkState", 1);
    if (link >= LINKS) return INVALID_ARGUMENT;
    *out = whole(numbered(gpu, "link", link, 1));
    return SUCCESS;
}

/* corrected, uncorrected; volatile, aggregate */
API nvmlDeviceGetTotalEccErrors(device_t *device, int type, int scope, unsigned long long *out) {
    DEVICE("DeviceGetTotalEccErrors", 1);
    if (type < 0 || type > 1 || scope < 0 || scope > 1) return INVALID_ARGUMENT;
    *out = (unsigned long long)numbered(gpu, "field", 3u + (unsigned)type + 2u * (unsigned)scope, 0);
    return SUCCESS;
}

API nvmlDeviceGetEccMode(device_t *device, int *current, int *pending) {
    DEVICE("DeviceGetEccMode", 140);
    *current = *pending = 1;
    return SUCCESS;
}

API nvmlDeviceGetRemappedRows(device_t *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    DEVICE("DeviceGetRemappedRows", 1);
    *corrected = whole(value(gpu, "field:142", 0));
    *uncorrected = whole(value(gpu, "field:143", 0));
    *pending = whole(value(gpu, "field:144", 0));
    *failed = whole(value(gpu, "field:145", 0));
    return SUCCESS;
}

static int retired_pages(device_t *device, unsigned *number, const char *call) {
    DEVICE(call, 1);
    if (value(gpu, "retired_pages", -1) < 0) return NOT_SUPPORTED; /* on Ampere and later */
    unsigned room = *number;
    *number = whole(value(gpu, "retired_pages", 0));
    return *number > room ? INSUFFICIENT_SIZE : SUCCESS;
}

API nvmlDeviceGetRetiredPages(device_t *device, int cause, unsigned *number, unsigned long long *addresses) {
    (void)cause, (void)addresses;
    return retired_pages(device, number, "DeviceGetRetiredPages");
}

API nvmlDeviceGetRetiredPages_v2(device_t *device, int cause, unsigned *number, unsigned long long *addresses, unsigned long long *times) {
    (void)cause, (void)addresses, (void)times;
    return retired_pages(device, number, "DeviceGetRetiredPages_v2");
}

API nvmlDeviceGetRetiredPagesPendingStatus(device_t *device, int *out) {
    DEVICE("DeviceGetRetiredPagesPendingStatus", 1);
    *out = (int)value(gpu, "retired_pages_pending", 0);
    return value(gpu, "retired_pages", -1) < 0 ? NOT_SUPPORTED : SUCCESS;
}

API nvmlDeviceGetMigMode(device_t *device, unsigned *current, unsigned *pending) {
    DEVICE("DeviceGetMigMode", 140);
    *current = *pending = whole(value(gpu, "mig", 0));
    return SUCCESS;
}

API nvmlDeviceGetFanSpeed(device_t *device, unsigned *out) {
    (void)out;
    DEVICE("DeviceGetFanSpeed", 137);
    return NOT_SUPPORTED;
}

/* ---- processes ---- */

API nvmlDeviceGetComputeRunningProcesses_v3(device_t *device, unsigned *number, process_t *out) {
    DEVICE("DeviceGetComputeRunningProcesses_v3", 10);
    unsigned room = *number, found = 0;
    for (int i = 0; i < control.running_count; i++) {
        const running_t *running = &control.running[i];
        if (running->gpu != gpu && running->gpu != ANY) continue;
        if (out && found < room) out[found] = (process_t){running->pid, (unsigned long long)running->bytes, ~0u, ~0u};
        found++;
    }
    *number = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

API nvmlDeviceGetProcessUtilization(device_t *device, process_sample_t *out, unsigned *number, unsigned long long since) {
    DEVICE("DeviceGetProcessUtilization", 2400);
    unsigned room = *number, found = 0;
    unsigned long long at = now_us() / 1000000 * 1000000;
    for (int i = 0; i < control.running_count && at > since; i++) {
        const running_t *running = &control.running[i];
        if (running->gpu != gpu && running->gpu != ANY) continue;
        if (out && found < room) out[found] = (process_sample_t){running->pid, at, whole(running->sm), 0, 0, 0};
        found++;
    }
    *number = found ? found : 256;
    if (!found) return NOT_FOUND;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* ---- field values ---- */

typedef struct { unsigned first, last; int type; long cost_us; double otherwise; } known_t;
static const known_t FIELDS[] = {
    {1, 2, UINT, 1, 1},          {3, 6, ULL, 1, 0},           {74, 81, ULL, 1, 0},         {82, 82, UINT, 1, 36},
    {83, 83, ULL, 4000, 0},      {91, 91, UINT, 150, LINKS},  {94, 95, UINT, 175, 0},      {138, 141, ULL, 360, 0},
    {142, 145, ULL, 1, 0},       {146, 146, UINT, 155, 0},    {147, 147, UINT, 1, LINKS},  {161, 163, ULL, 250, 0},
    {164, 169, UINT, 150, 0},    {173, 184, UINT, 1, 0},      {185, 186, UINT, 1, 0},      {187, 187, UINT, 1, 200000},
    {188, 190, UINT, 1, 700000}, {191, 191, ULL, 4000, 0},    {192, 192, UINT, 1, 700000}, {193, 193, SINT, 42, -8},
    {194, 194, SINT, 42, -2},    {195, 196, SINT, 42, 0},     {197, 198, UINT, 140, 0},    {199, 200, UINT, 1, 0},
    {223, 229, UINT, 1, 0},      {230, 230, UINT, 6, 0},      {269, 269, ULL, 1, 0},       {270, 271, ULL, 350, 0},
    {301, 302, UINT, 1, 0},      {251, 253, ULL, -1, 0},
};

static int is_of_links(unsigned id) { return (id >= 138 && id <= 141) || (id >= 160 && id <= 163); }

/* Counters, by field: what they are at without a setting. */
static double counter(int gpu, const field_t *field, double otherwise) {
    const kept_t *kept = &shared->gpus[gpu];
    switch (field->id) {
    case 74: return kept->reason_ns[2];
    case 76: return kept->reason_ns[4];
    case 83: case 191: return kept->energy_mj;
    case 138: case 140: return field->scope == ~0u ? 0 : kept->link_sent_kib;
    case 139: case 141: return field->scope == ~0u ? 0 : kept->link_received_kib;
    case 185: return value(gpu, "power_average_mw", value(gpu, "power_mw", 79911));
    case 186: return value(gpu, "power_mw", 79881);
    case 197: return fmod(kept->pcie_sent, 4294967296.0);
    case 198: return fmod(kept->pcie_received, 4294967296.0);
    case 251: case 269: return kept->reason_ns[5];
    case 252: case 270: return kept->reason_ns[6];
    case 253: case 271: return kept->reason_ns[7];
    default: return otherwise;
    }
}

static int field_code(const known_t *known, const field_t *field) {
    if (!known || known->cost_us < 0) return NOT_SUPPORTED;
    if ((field->id == 185 || field->id == 186) && field->scope) return NOT_SUPPORTED; /* no module */
    return is_of_links(field->id) && field->scope != ~0u && field->scope >= LINKS ? INVALID_ARGUMENT : SUCCESS;
}

static void read_field(int gpu, field_t *field) {
    const known_t *known = NULL;
    char call[40];
    for (unsigned i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        if (field->id >= FIELDS[i].first && field->id <= FIELDS[i].last) known = &FIELDS[i];
    snprintf(call, sizeof call, "DeviceGetFieldValues:%u", field->id);
    int code = obey(gpu, call);
    field->code = code >= 0 ? code : field_code(known, field);
    field->timestamp = (long long)now_us();
    field->latency = 0;
    field->value.ull = 0;
    field->type = 0;
    if (field->code) return;
    if (control.costs && known) burn(known->cost_us);
    double found = numbered(gpu, "field", field->id, counter(gpu, field, known ? known->otherwise : 0));
    field->type = known ? known->type : ULL;
    if (field->type == UINT) field->value.ui = whole(found);
    else if (field->type == SINT) field->value.si = (int)found;
    else field->value.ull = (unsigned long long)found;
}

API nvmlDeviceGetFieldValues(device_t *device, int number, field_t *fields) {
    DEVICE("DeviceGetFieldValues", 0);
    if (number < 1 || !fields) return INVALID_ARGUMENT;
    for (int i = 0; i < number; i++) read_field(gpu, &fields[i]);
    return SUCCESS;
}

/* ---- sample rings: power, utilization, memory, encoder, decoder ---- */

static int power_ring(int gpu, unsigned long long since, unsigned *number, sample_t *out) {
    unsigned found = 0;
    unsigned long long last = now_us() / 20000 * 20000;
    for (unsigned i = POWER_RING; i-- > 0;) {
        unsigned long long at = last - i * 20000ull;
        if (at <= since) continue;
        if (out && found < *number) out[found] = (sample_t){at, {.ui = whole(value(gpu, "power_mw", 79881))}};
        found++;
    }
    if (out && found > *number) return INSUFFICIENT_SIZE;
    *number = out ? found : POWER_RING;
    return found ? SUCCESS : NOT_FOUND;
}

static int ring(int gpu, int kind, unsigned long long since, unsigned *number, sample_t *out) {
    const kept_t *kept = &shared->gpus[gpu];
    unsigned found = 0;
    for (uint64_t at = kept->ring_at_us - (RING - 1) * 200000ull; at <= kept->ring_at_us; at += 200000) {
        unsigned slot = (unsigned)(at / 200000 % RING);
        if (kept->ring_us[slot] != at || at <= since) continue;
        double share = kind == 1 ? kept->ring_gpu[slot] : kind == 2 ? kept->ring_memory[slot] : 0;
        if (out && found < *number) out[found] = (sample_t){at, {.ui = whole(share)}};
        found++;
    }
    if (out && found > *number) return INSUFFICIENT_SIZE;
    *number = found && out ? found : RING;
    return found ? SUCCESS : NOT_FOUND;
}

API nvmlDeviceGetSamples(device_t *device, int kind, unsigned long long since, int *type, unsigned *number, sample_t *out) {
    char call[32];
    DEVICE("DeviceGetSamples", kind ? 2100 : 300);
    snprintf(call, sizeof call, "DeviceGetSamples:%d", kind);
    int code = obey(gpu, call);
    if (code > 0) return code;
    if (kind < 0 || kind > 8) return INVALID_ARGUMENT;
    *type = UINT;
    if (kind == 0) return power_ring(gpu, since, number, out);
    if (kind <= 4) return ring(gpu, kind, since, number, out);
    *number = 256;
    return NOT_FOUND;
}

/* ---- events ---- */

static long newest_xid(void) {
    long newest = 0;
    for (int i = 0; i < control.xid_count; i++)
        if (control.xids[i].number > newest) newest = control.xids[i].number;
    return newest;
}

API nvmlEventSetCreate(event_set_t **out) {
    SYSTEM("EventSetCreate", 0);
    *out = calloc(1, sizeof **out);
    (*out)->cursor = newest_xid();
    return SUCCESS;
}

API nvmlEventSetFree(event_set_t *set) {
    SYSTEM("EventSetFree", 0);
    free(set);
    return SUCCESS;
}

READS(DeviceGetSupportedEventTypes, unsigned long long, 1, value(gpu, "event_types", 0x19f))

API nvmlDeviceRegisterEvents(device_t *device, unsigned long long types, event_set_t *set) {
    DEVICE("DeviceRegisterEvents", 1);
    if (types & 8) set->registered |= 1u << gpu;
    return SUCCESS;
}

static int next_event(event_set_t *set, event_t *out) {
    for (int i = 0; i < control.xid_count; i++) {
        const xid_t *xid = &control.xids[i];
        if (xid->number <= set->cursor) continue;
        set->cursor = xid->number;
        if (xid->gpu < 0 || !(set->registered >> xid->gpu & 1)) continue;
        *out = (event_t){&devices[xid->gpu], 8, xid->xid, ~0u, ~0u};
        return SUCCESS;
    }
    return TIMEOUT;
}

API nvmlEventSetWait_v2(event_set_t *set, event_t *out, unsigned ms) {
    SYSTEM("EventSetWait_v2", 1);
    unsigned long long until = machine_us() + ms * 1000ull;
    for (;;) {
        follow_control();
        if (!next_event(set, out)) return SUCCESS;
        if (machine_us() >= until) return TIMEOUT;
        usleep(1000);
    }
}

#ifndef OLD /* what a library of 2022 lacks */

API nvmlDeviceGetMemoryInfo_v2(device_t *device, memory_v2_t *out) {
    DEVICE("DeviceGetMemoryInfo_v2", 5);
    if (out->version != 0x02000028) return ARGUMENT_VERSION_MISMATCH;
    out->total = (unsigned long long)TOTAL;
    out->reserved = (unsigned long long)RESERVED;
    out->used = (unsigned long long)USED;
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

READS(DeviceGetCurrentClocksEventReasons, unsigned long long, 1, reasons(gpu))
READS(DeviceGetSupportedClocksEventReasons, unsigned long long, 1, value(gpu, "supported_reasons", 0x1ff))

API nvmlDeviceGetTemperatureV(device_t *device, temperature_t *out) {
    DEVICE("DeviceGetTemperatureV", 1);
    if (out->version != 0x0100000c) return ARGUMENT_VERSION_MISMATCH;
    if (out->sensor) return INVALID_ARGUMENT;
    out->degrees = (int)value(gpu, "temperature", 31);
    return SUCCESS;
}

API nvmlDeviceGetMarginTemperature(device_t *device, margin_t *out) {
    DEVICE("DeviceGetMarginTemperature", 820);
    if (out->version != 0x01000008) return ARGUMENT_VERSION_MISMATCH;
    out->margin = (int)value(gpu, "margin", 50);
    return SUCCESS;
}

API nvmlDeviceGetGpuFabricInfo(device_t *device, unsigned char *out) {
    DEVICE("DeviceGetGpuFabricInfo", 160);
    memset(out, 0, 28);
    out[24] = (unsigned char)value(gpu, "fabric_state", 3);
    return SUCCESS;
}

API nvmlDeviceGetGpuFabricInfoV(device_t *device, fabric_t *out) {
    DEVICE("DeviceGetGpuFabricInfoV", 170);
    if (out->version != 0x02000024 && out->version != 0x03000028) return ARGUMENT_VERSION_MISMATCH;
    memset(out->cluster, 0, sizeof out->cluster);
    out->status = 0;
    out->clique = 0;
    out->state = (unsigned char)value(gpu, "fabric_state", 3);
    out->health = whole(value(gpu, "fabric_health", 0));
    if (out->version == 0x03000028) out->summary = 0;
    return SUCCESS;
}

/* ---- GPM ---- */

API nvmlGpmQueryDeviceSupport(device_t *device, support_t *out) {
    DEVICE("GpmQueryDeviceSupport", 1);
    if (out->version != 1) return ARGUMENT_VERSION_MISMATCH;
    out->supported = whole(value(gpu, "gpm", 1));
    return SUCCESS;
}

API nvmlGpmSampleAlloc(gpm_sample_t **out) {
    SYSTEM("GpmSampleAlloc", 1);
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}

API nvmlGpmSampleFree(gpm_sample_t *sample) {
    SYSTEM("GpmSampleFree", 1);
    free(sample);
    return SUCCESS;
}

API nvmlGpmSampleGet(device_t *device, gpm_sample_t *out) {
    DEVICE("GpmSampleGet", 37);
    if (value(gpu, "gpm", 1) == 0) return NOT_SUPPORTED;
    out->us = shared->gpus[gpu].us;
    out->physical = gpu;
    memcpy(out->sums, shared->gpus[gpu].gpm, sizeof out->sums);
    return SUCCESS;
}

static int is_dear(unsigned id) { return id == 1 || id == 3 || id == 20 || id == 21 || id == 60 || id == 61; }

static void read_metric(const metrics_t *asked, metric_t *metric) {
    char call[40];
    double us = (double)asked->to->us - (double)asked->from->us;
    int gpu = asked->to->physical;
    snprintf(call, sizeof call, "GpmMetricsGet:%u", metric->id);
    int code = obey(gpu, call);
    metric->code = code >= 0 ? code : SUCCESS;
    metric->short_name = metric->long_name = "";
    metric->unit = (metric->id >= 20 && metric->id < 30) || metric->id >= 60 ? "MiB/s" : "%";
    metric->value = 0;
    if (metric->code) return;
    if (control.costs && is_dear(metric->id)) burn(250);
    if (us < 100000 || !isfinite(gpm_value(gpu, metric->id))) metric->value = NAN;
    else metric->value = (asked->to->sums[metric->id] - asked->from->sums[metric->id]) / us;
}

API nvmlGpmMetricsGet(metrics_t *asked) {
    SYSTEM(NULL, 0);
    if (asked->version != 1) return ARGUMENT_VERSION_MISMATCH;
    int code = enter(asked->to->physical, "GpmMetricsGet", 0);
    if (code) return code;
    for (unsigned i = 0; i < asked->count; i++) {
        if (asked->metrics[i].id < 1 || asked->metrics[i].id >= GPM) return INVALID_ARGUMENT;
        read_metric(asked, &asked->metrics[i]);
    }
    return SUCCESS;
}

#endif
