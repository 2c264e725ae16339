//go:build cgo && linux

package xla

/*
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The part of the plugin interface by which programs are compiled and run: go-xla waits for the device in
// every call, which leaves it idle between steps, and compiles for several devices only through XLA's own
// partitioner. The order of the functions and the form of their arguments never change within a major
// version.
typedef void *(*galley_fn)(void *args);

enum {
	ERROR_DESTROY = 0, ERROR_MESSAGE = 1, EVENT_DESTROY = 5, EVENT_AWAIT = 8, CLIENT_DEVICES = 15, COMPILE = 20,
		BUFFER_FROM_HOST = 22,
	DESCRIPTION_ID = 23, ATTRIBUTES = 25, DESCRIPTION_TEXT = 27, DEVICE_DESCRIPTION = 29, IS_ADDRESSABLE = 30,
		EXECUTABLE_DESTROY = 40, SERIALIZE = 49, LOADED_DESTROY = 50,
	GET_EXECUTABLE = 51, EXECUTE = 55, DESERIALIZE = 56, BUFFER_DESTROY = 58, TO_HOST = 70, MEMORY_STATS = 96
};

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
	struct { size_t size; void *extensions; void *error; const char *message; size_t length; } a = {sizeof a,
		NULL, error, NULL, 0};
	galley_call(api, ERROR_MESSAGE, &a);
	char *text = malloc(a.length + 1);
	memcpy(text, a.message, a.length);
	text[a.length] = 0;
	galley_destroy(api, ERROR_DESTROY, error);
	return text;
}

// galley_put copies data before it returns; the way to the device goes on afterwards.
static char *galley_put(const void *api, void *client, void *device, const void *data, int type,
	const int64_t *dims, size_t rank, void **buffer) {
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

// galley_devices is all devices of a client; the list is the client's.
static char *galley_devices(const void *api, void *client, void *const **devices, size_t *count) {
	struct { size_t size; void *extensions; void *client; void *const *devices; size_t count; } a = {sizeof a,
		NULL, client, NULL, 0};
	void *error = galley_call(api, CLIENT_DEVICES, &a);
	*devices = a.devices; *count = a.count;
	return galley_text(api, error);
}

// galley_describe says what a device is: its number, whether this process can use it, and how the plugin
// calls it.
static char *galley_describe(const void *api, void *device, int *id, bool *here, const char **text,
	size_t *length) {
	struct { size_t size; void *extensions; void *device; void *description; } d = {sizeof d, NULL, device,
		NULL};
	void *error = galley_call(api, DEVICE_DESCRIPTION, &d);
	if (error != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; void *description; int id; } i = {sizeof i, NULL, d.description, 0};
	if ((error = galley_call(api, DESCRIPTION_ID, &i)) != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; void *device; bool here; } h = {sizeof h, NULL, device, false};
	if ((error = galley_call(api, IS_ADDRESSABLE, &h)) != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; void *description; const char *text; size_t length; } t = {sizeof t,
		NULL, d.description, NULL, 0};
	if ((error = galley_call(api, DESCRIPTION_TEXT, &t)) != NULL) return galley_text(api, error);
	*id = i.id; *here = h.here; *text = t.text; *length = t.length;
	return NULL;
}

// galley_attribute is the text, or the number, that a device has as an attribute: of length 0, or 0, where it
// has none.
static char *galley_attribute(const void *api, void *device, const char *name, const char **text,
	size_t *length, int64_t *number) {
	enum { TEXT = 0, NUMBER = 1 };
	struct named { size_t size; void *extensions; const char *name; size_t name_size; int type; union { const char *text; int64_t number; } value; size_t value_size; };
	struct { size_t size; void *extensions; void *device; void *description; } d = {sizeof d, NULL, device,
		NULL};
	void *error = galley_call(api, DEVICE_DESCRIPTION, &d);
	if (error != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; void *description; size_t count; const struct named *list; } a = {sizeof a, NULL, d.description, 0, NULL};
	if ((error = galley_call(api, ATTRIBUTES, &a)) != NULL) return galley_text(api, error);
	*length = 0, *number = 0;
	for (size_t i = 0; i < a.count; i++) {
		const struct named *v = &a.list[i];
		if (v->name_size != strlen(name) || memcmp(v->name, name, v->name_size) != 0) continue;
		if (v->type == TEXT) { *text = v->value.text; *length = v->value_size; }
		if (v->type == NUMBER) *number = v->value.number;
	}
	return NULL;
}

static char *galley_compile(const void *api, void *client, const char *code, size_t code_size,
	const char *options, size_t options_size, void **exe) {
	static const char format[] = "mlir";
	struct { size_t size; void *extensions; const char *code; size_t code_size; const char *format; size_t format_size; } program =
		{sizeof program, NULL, code, code_size, format, sizeof format - 1};
	struct { size_t size; void *extensions; void *client; const void *program; const char *options; size_t options_size; void *exe; } a =
		{sizeof a, NULL, client, &program, options, options_size, NULL};
	void *error = galley_call(api, COMPILE, &a);
	*exe = a.exe;
	return galley_text(api, error);
}

// galley_memory is the bytes of a program's arguments, of its results, of those that are the arguments' own,
// and of the rest.
static char *galley_memory(const void *api, void *loaded, int64_t out[4]) {
	struct { size_t size; void *extensions; void *loaded; void *exe; } g = {sizeof g, NULL, loaded, NULL};
	void *error = galley_call(api, GET_EXECUTABLE, &g);
	if (error != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; void *exe; int64_t code, arguments, results, aliased, rest,
		more[10]; } a;
	memset(&a, 0, sizeof a);
	a.size = sizeof a; a.exe = g.exe;
	error = galley_call(api, MEMORY_STATS, &a);
	galley_destroy(api, EXECUTABLE_DESTROY, g.exe);
	out[0] = a.arguments; out[1] = a.results; out[2] = a.aliased; out[3] = a.rest;
	return galley_text(api, error);
}

// galley_serialize is a compiled program as bytes, which the caller frees.
static char *galley_serialize(const void *api, void *loaded, void **data, size_t *bytes) {
	struct { size_t size; void *extensions; void *loaded; void *exe; } g = {sizeof g, NULL, loaded, NULL};
	void *error = galley_call(api, GET_EXECUTABLE, &g);
	if (error != NULL) return galley_text(api, error);
	struct { size_t size; void *extensions; const void *exe; const char *data; size_t bytes; void *holder; void (
		*release)(void *); } a = {sizeof a, NULL, g.exe};
	error = galley_call(api, SERIALIZE, &a);
	if (error == NULL) {
		*data = malloc(a.bytes); *bytes = a.bytes;
		memcpy(*data, a.data, a.bytes);
		a.release(a.holder);
	}
	galley_destroy(api, EXECUTABLE_DESTROY, g.exe);
	return galley_text(api, error);
}

static char *galley_deserialize(const void *api, void *client, const char *data, size_t bytes, void **exe) {
	struct { size_t size; void *extensions; void *client; const char *data; size_t bytes; void *exe; const char *options; size_t options_size; } a =
		{sizeof a, NULL, client, data, bytes, NULL, NULL, 0};
	void *error = galley_call(api, DESERIALIZE, &a);
	*exe = a.exe;
	return galley_text(api, error);
}

// galley_execute starts a program on its devices, or on one, and lets go of what it was given for good. args
// and results are those of the first device, then those of the next.
static char *galley_execute(const void *api, void *exe, void *device, int launch, size_t num_devices,
	void **args, size_t num_args,
		const int64_t *kept, size_t num_kept, const int64_t *donated, size_t num_donated, void **results,
			size_t num_results) {
	struct {
		size_t size; void *extensions; void *send, *recv; size_t num_send, num_recv; int launch;
		const int64_t *kept; size_t num_kept; void *context; const char *location;
		size_t num_tasks; int *tasks; int64_t *incarnations; void *slices;
	} options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options; options.kept = kept; options.num_kept = num_kept; options.launch = launch;
	void **in[num_devices], **out[num_devices];
	for (size_t d = 0; d < num_devices; d++) {
		in[d] = args + d * num_args;
		out[d] = results + d * num_results;
	}
	struct {
		size_t size; void *extensions; void *exe; void *options; void **const *args; size_t num_devices, num_args;
		void **const *results; void **events; void *device;
	} a = {sizeof a, NULL, exe, &options, in, num_devices, num_args, out, NULL, device};
	void *error = galley_call(api, EXECUTE, &a);
	for (size_t d = 0; d < num_devices; d++)
		for (size_t i = 0; i < num_donated; i++) galley_destroy(api, BUFFER_DESTROY, in[d][donated[i]]);
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
	"github.com/galley-ml/galley/backend"
)

// handle is a pointer to an object of the plugin.
type handle = unsafe.Pointer

// engine is the plugin's function table and a client.
type engine struct{ api, client handle }

// newEngine reads the plugin's client pointer out of go-xla's object, which does not export it.
func newEngine(api handle, client *pjrt.Client) engine {
	return engine{api: api, client: field(client, "client", "c")}
}

// field follows pointers by the names of struct fields.
func field(object any, path ...string) handle {
	v := reflect.ValueOf(object)
	for _, name := range path {
		v = v.Elem().FieldByName(name)
	}
	return v.UnsafePointer()
}

// failure returns a C string as an error and frees it; nil if there is none.
func failure(text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(text))
	return brief(errors.New(C.GoString(text)))
}

func (e engine) put(device handle, a array.Array) (handle, error) {
	data := a.Bytes()
	if len(data) == 0 {
		data = make([]byte, 1) // the plugin needs a valid address even for empty data
	}
	dims := make([]C.int64_t, len(a.Shape()), len(a.Shape())+1)
	for i, d := range a.Shape() {
		dims[i] = C.int64_t(d)
	}
	var out handle
	err := failure(C.galley_put(e.api, e.client, device, unsafe.Pointer(unsafe.SliceData(data)),
		C.int(typeNumber(a.DType())),
		unsafe.SliceData(dims), C.size_t(len(dims)), &out))
	return out, err
}

func (e engine) read(b handle, into array.Array) error {
	data := into.Bytes()
	return failure(C.galley_read(e.api, b, unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)),
		C.int(len(into.Shape()))))
}

func (e engine) destroy(b handle) { C.galley_destroy(e.api, C.BUFFER_DESTROY, b) }

// place is a device as the plugin describes it; here reports whether this process can use it.
type place struct {
	device handle
	id     int
	here   bool
	name   string
}

// places returns all devices of the client.
func (e engine) places() ([]place, error) {
	var list *handle
	var n C.size_t
	if err := failure(C.galley_devices(e.api, e.client, &list, &n)); err != nil {
		return nil, err
	}
	var all []place
	for _, device := range unsafe.Slice(list, n) {
		var id C.int
		var here C.bool
		var text *C.char
		var length C.size_t
		if err := failure(C.galley_describe(e.api, device, &id, &here, &text, &length)); err != nil {
			return nil, err
		}
		all = append(all, place{device, int(id), bool(here), C.GoStringN(text, C.int(length))})
	}
	return all, nil
}

// attribute returns a text or a number that the plugin has for a device; empty and 0 if it has none.
func (e engine) attribute(device handle, name string) (text string, number int) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	var start *C.char
	var length C.size_t
	var n C.int64_t
	if failure(C.galley_attribute(e.api, device, key, &start, &length, &n)) != nil {
		return "", 0
	}
	if length > 0 {
		text = C.GoStringN(start, C.int(length))
	}
	return text, int(n)
}

// compile compiles a program's text; options is a CompileOptionsProto.
func (e engine) compile(text string, options []byte) (handle, error) {
	code, opts := C.CString(text), C.CBytes(options)
	defer C.free(unsafe.Pointer(code))
	defer C.free(opts)
	var exe handle
	err := failure(C.galley_compile(e.api, e.client, code, C.size_t(len(text)), (*C.char)(opts),
		C.size_t(len(options)), &exe))
	return exe, err
}

// serialize returns a compiled program as bytes, if the plugin supports it.
func (e engine) serialize(exe handle) []byte {
	var data handle
	var n C.size_t
	if failure(C.galley_serialize(e.api, exe, &data, &n)) != nil {
		return nil
	}
	defer C.free(data)
	return C.GoBytes(data, C.int(n))
}

// deserialize loads a program from its bytes; nil if the plugin rejects them.
func (e engine) deserialize(data []byte) handle {
	var exe handle
	if failure(C.galley_deserialize(e.api, e.client, (*C.char)(unsafe.Pointer(unsafe.SliceData(data))),
		C.size_t(len(data)), &exe)) != nil {
		return nil
	}
	return exe
}

// memory returns what a program needs; zero if the plugin does not report it.
func (e engine) memory(exe handle) backend.Memory {
	var bytes [4]C.int64_t
	if failure(C.galley_memory(e.api, exe, &bytes[0])) != nil {
		return backend.Memory{}
	}
	return backend.Memory{Params: int(bytes[0]), Results: int(bytes[1] - bytes[2]), Arena: int(bytes[3])}
}

func (e engine) destroyProgram(exe handle) { C.galley_destroy(e.api, C.LOADED_DESTROY, exe) }

// launch is one run of a program.
type launch struct {
	exe handle
	// on is the device for a program that can run on any; nil means the devices that it was compiled
	// for.
	on      handle
	devices int
	// number distinguishes runs on several devices.
	number int
	// args and results are those of all devices, one after the other; kept and donated are the indices of one
	// device's arguments that are kept and donated.
	args, results []handle
	kept, donated []int64
}

// execute starts a program.
func (e engine) execute(l launch) error {
	return failure(C.galley_execute(
		e.api,
		l.exe,
		l.on,
		C.int(l.number),
		C.size_t(l.devices),
		unsafe.SliceData(l.args),
		C.size_t(len(l.args)/l.devices),
		(*C.int64_t)(
			unsafe.SliceData(l.kept),
		),
		C.size_t(len(l.kept)),
		(*C.int64_t)(unsafe.SliceData(l.donated)),
		C.size_t(len(l.donated)),
		unsafe.SliceData(l.results),
		C.size_t(len(l.results)/l.devices),
	))
}

// typeNumber returns the plugin's code of a dtype.
func typeNumber(d array.DType) int {
	switch d {
	case array.Bool:
		return 1
	case array.I16:
		return 3
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
