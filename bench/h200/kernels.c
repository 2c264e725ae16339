// Records every kernel that a CUDA process runs, whatever it is written in. Set CUDA_INJECTION64_PATH to the library and
// KERNELS_OUT to a file; the last lines of the file are the last kernels: start and duration in nanoseconds, name.
//
//   gcc -O2 -shared -fPIC -I$CUPTI/include kernels.c -o kernels.so -L$CUPTI/lib64 -Wl,-rpath,$CUPTI/lib64 -lcupti -lpthread
#include <cupti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *out;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static void CUPTIAPI want(uint8_t **buffer, size_t *size, size_t *records) {
	*size = 4 << 20;
	*buffer = aligned_alloc(64, *size);
	*records = 0;
}

static void CUPTIAPI got(CUcontext ctx, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
	CUpti_Activity *r = NULL;
	pthread_mutex_lock(&mu);
	while (cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
		if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
			CUpti_ActivityKernel9 *k = (CUpti_ActivityKernel9 *)r;
			fprintf(out, "%lu,%lu,%s\n", (unsigned long)k->start, (unsigned long)(k->end - k->start), k->name);
		} else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
			CUpti_ActivityMemcpy5 *k = (CUpti_ActivityMemcpy5 *)r;
			fprintf(out, "%lu,%lu,memcpy kind %d\n", (unsigned long)k->start, (unsigned long)(k->end - k->start), (int)k->copyKind);
		} else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
			CUpti_ActivityMemset4 *k = (CUpti_ActivityMemset4 *)r;
			fprintf(out, "%lu,%lu,memset\n", (unsigned long)k->start, (unsigned long)(k->end - k->start));
		}
	}
	fflush(out);
	pthread_mutex_unlock(&mu);
	free(buffer);
}

static void *flush(void *arg) {
	for (;;) {
		usleep(300 * 1000);
		cuptiActivityFlushAll(0);
	}
	return NULL;
}

int InitializeInjection(void) {
	const char *path = getenv("KERNELS_OUT");
	if (path == NULL || (out = fopen(path, "w")) == NULL) return 1;
	cuptiActivityRegisterCallbacks(want, got);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
	cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
	pthread_t t;
	pthread_create(&t, NULL, flush, NULL);
	return 1;
}
