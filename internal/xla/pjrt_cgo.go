//go:build cgo && linux

package xla

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The part of the plugin interface by which programs run: go-xla waits for the device in every call, which leaves it idle
// between steps. The order of the functions and the form of their arguments never change within a major version.
typedef void *(*galley_fn)(void *args);

enum { ERROR_DESTROY = 0, ERROR_MESSAGE = 1, EVENT_DESTROY = 5, EVENT_AWAIT = 8, BUFFER_FROM_HOST = 22, EXECUTE = 55, BUFFER_DESTROY = 58, TO_HOST = 70 };

static void *galley_call(const void *api, int function, void *args) {
	const size_t head = 40; // the table's size, extensions and version
	return ((galley_fn *)((char *)api + head))[function](args);
}

struct galley_handle { size_t size; void *extensions; void *handle; };

static void galley_destroy(const void *api, int function, void *handle) {
	struct galley_handle a = {sizeof a, NULL, handle};
	galley_call(api, function, &a);
}

// galley_text is an error's message, which the caller frees, or NULL where there is none.
static char *galley_text(const void *api, void *error) {
	if (error == NULL) return NULL;
	struct { size_t size; void *extensions; void *error; const char *message; size_t length; } a = {sizeof a, NULL, error, NULL, 0};
	galley_call(api, ERROR_MESSAGE, &a);
	char *text = malloc(a.length + 1);
	memcpy(text, a.message, a.length);
	text[a.length] = 0;
	galley_destroy(api, ERROR_DESTROY, error);
	return text;
}

// galley_put copies data before it returns; the way to the device goes on afterwards.
static char *galley_put(const void *api, void *client, void *device, const void *data, int type, const int64_t *dims, size_t rank, void **buffer) {
	struct {
		size_t size; void *extensions; void *client; const void *data; int type; const int64_t *dims; size_t rank;
		const int64_t *strides; size_t num_strides; int semantics; void *device; void *memory; void *layout; void *event; void *buffer;
	} a;
	memset(&a, 0, sizeof a);
	a.size = sizeof a; a.client = client; a.data = data; a.type = type; a.dims = dims; a.rank = rank; a.device = device;
	void *error = galley_call(api, BUFFER_FROM_HOST, &a);
	if (error != NULL) return galley_text(api, error);
	if (a.event != NULL) galley_destroy(api, EVENT_DESTROY, a.event);
	*buffer = a.buffer;
	return NULL;
}

// galley_read waits for the run that makes the buffer.
static char *galley_read(const void *api, void *buffer, void *dst, size_t bytes, int rank) {
	int64_t order[rank > 0 ? rank : 1];
	for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
	struct {
		size_t size; void *extensions;
		struct { size_t size; void *extensions; const int64_t *order; size_t rank; const int64_t *tiles; const size_t *tile_sizes; size_t num_tiles; } tiled;
		int type;
	} layout;
	memset(&layout, 0, sizeof layout);
	layout.size = sizeof layout; layout.tiled.size = sizeof layout.tiled; layout.tiled.order = order; layout.tiled.rank = rank;
	struct { size_t size; void *extensions; void *src; void *layout; void *dst; size_t bytes; void *event; } a =
		{sizeof a, NULL, buffer, &layout, dst, bytes, NULL};
	void *error = galley_call(api, TO_HOST, &a);
	if (error != NULL) return galley_text(api, error);
	struct galley_handle wait = {sizeof wait, NULL, a.event};
	error = galley_call(api, EVENT_AWAIT, &wait);
	galley_destroy(api, EVENT_DESTROY, a.event);
	return galley_text(api, error);
}

// galley_execute starts a program and lets go of what it was given for good.
static char *galley_execute(const void *api, void *exe, void *device, void **args, size_t num_args, const int64_t *kept, size_t num_kept,
		const int64_t *donated, size_t num_donated, void **results) {
	struct {
		size_t size; void *extensions; void *send, *recv; size_t num_send, num_recv; int launch;
		const int64_t *kept; size_t num_kept; void *context; const char *location;
		size_t num_tasks; int *tasks; int64_t *incarnations; void *slices;
	} options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options; options.kept = kept; options.num_kept = num_kept;
	struct {
		size_t size; void *extensions; void *exe; void *options; void **const *args; size_t num_devices, num_args;
		void **const *results; void **events; void *device;
	} a = {sizeof a, NULL, exe, &options, &args, 1, num_args, &results, NULL, device};
	void *error = galley_call(api, EXECUTE, &a);
	for (size_t i = 0; i < num_donated; i++) galley_destroy(api, BUFFER_DESTROY, args[donated[i]]);
	return galley_text(api, error);
}
*/
import "C"

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/galley-ml/galley/array"
)

// handle is an object of the plugin.
type handle = unsafe.Pointer

// engine is what runs programs: the plugin's table of functions, a client and one of its devices.
type engine struct{ api, client, device handle }

// newEngine reads the plugin's own pointers out of go-xla's objects, which do not tell them.
func newEngine(api handle, client *pjrt.Client, device *pjrt.Device) engine {
	return engine{api: api, client: field(client, "client", "c"), device: field(device, "cDevice")}
}

// executableHandle is the plugin's pointer to a compiled program.
func executableHandle(p *pjrt.LoadedExecutable) handle { return field(p, "wrapper", "c") }

// field follows pointers by the names of struct fields.
func field(object any, path ...string) handle {
	v := reflect.ValueOf(object)
	for _, name := range path {
		v = v.Elem().FieldByName(name)
	}
	return v.UnsafePointer()
}

// failure is a C string as an error, freed; nil for none.
func failure(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return brief(errors.New(C.GoString(text)))
}

func (e engine) put(a array.Array) (handle, error) {
	data := a.Bytes()
	if len(data) == 0 {
		data = make([]byte, 1) // the plugin wants an address even for nothing
	}
	dims := make([]C.int64_t, len(a.Shape()), len(a.Shape())+1)
	for i, d := range a.Shape() {
		dims[i] = C.int64_t(d)
	}
	var out handle
	err := failure(C.galley_put(e.api, e.client, e.device, unsafe.Pointer(unsafe.SliceData(data)), C.int(typeNumber(a.DType())),
		unsafe.SliceData(dims), C.size_t(len(dims)), &out))
	return out, err
}

func (e engine) read(b handle, into array.Array) error {
	data := into.Bytes()
	return failure(C.galley_read(e.api, b, unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), C.int(len(into.Shape()))))
}

func (e engine) destroy(b handle) { C.galley_destroy(e.api, C.BUFFER_DESTROY, b) }

// execute starts a program. kept and donated are the numbers of the arguments that stay and of those that are given up.
func (e engine) execute(exe handle, args []handle, kept, donated []int64, results []handle) error {
	return failure(C.galley_execute(e.api, exe, e.device, unsafe.SliceData(args), C.size_t(len(args)),
		(*C.int64_t)(unsafe.SliceData(kept)), C.size_t(len(kept)), (*C.int64_t)(unsafe.SliceData(donated)), C.size_t(len(donated)),
		unsafe.SliceData(results)))
}

// typeNumber is the plugin's number of a dtype.
func typeNumber(d array.DType) int {
	switch d {
	case array.Bool:
		return 1
	case array.I32:
		return 4
	case array.I64:
		return 5
	case array.U8:
		return 6
	case array.F16:
		return 10
	case array.F32:
		return 11
	case array.F64:
		return 12
	case array.BF16:
		return 13
	}
	return 0
}
