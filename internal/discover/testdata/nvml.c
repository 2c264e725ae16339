// A library of three GPUs in NVML's place: two that NVLinks join, and one behind another switch.
#include <stdint.h>
#include <string.h>

static int inside = 0;

int nvmlInit_v2(void) { inside++; return 0; }
int nvmlShutdown(void) { inside--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return inside == 1 ? 0 : 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = (void *)(uintptr_t)(i + 1); return i > 2; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, "GPU of a test", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, uint64_t *memory) { memory[0] = 80ull << 30; memory[1] = memory[2] = 0; return 0; }
static int joined(void *device) { return (uintptr_t)device < 3; }
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *up) { *up = joined(device) && link < 12; return link >= 12; }
int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version) { *version = 4; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *x) { *x = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *x) { *x = 16; return 0; }
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, unsigned *x) { *x = 20; return 0; }
int nvmlDeviceGetP2PStatus(void *a, void *b, unsigned what, unsigned *x) { *x = !(joined(a) && joined(b)); return what != 4; }
