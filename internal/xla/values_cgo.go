//go:build cgo && linux

package xla

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// What Go does for the callbacks: NULL, or a text to free of what is wrong.
extern char *galleyValuePut(uintptr_t store, char *key, size_t key_size, char *value, size_t value_size);
extern char *galleyValueGet(uintptr_t store, char *key, size_t key_size, int wait_ms, char **value,
	size_t *value_size);

// galley_error makes an error of the plugin's.
typedef void *(*galley_make)(int code, const char *text, size_t size);
static void *galley_error(galley_make *make, int code, char *text) {
	if (text == NULL) return NULL;
	void *error = (*make)(code, text, strlen(text));
	free(text);
	return error;
}

enum { NOT_FOUND = 5, INTERNAL = 13 };

static void galley_free(char *value) { free(value); }

struct galley_get { size_t size; void *extensions; char *key; size_t key_size; int wait_ms; galley_make *make; void *store;
	char *value; size_t value_size; void (*deleter)(char *); };
static void *galley_kv_get(struct galley_get *a) {
	a->deleter = galley_free;
	return galley_error(a->make, NOT_FOUND, galleyValueGet((uintptr_t)a->store, a->key, a->key_size,
		a->wait_ms > 0 ? a->wait_ms : 1, &a->value, &a->value_size));
}

struct galley_try { size_t size; void *extensions; char *key; size_t key_size; galley_make *make; void *store;
	char *value; size_t value_size; void (*deleter)(char *); };
static void *galley_kv_try(struct galley_try *a) {
	a->deleter = galley_free;
	return galley_error(a->make, NOT_FOUND,
		galleyValueGet((uintptr_t)a->store, a->key, a->key_size, 0, &a->value,
		&a->value_size));
}

struct galley_store { size_t size; void *extensions; char *key; size_t key_size; char *value; size_t value_size;
	galley_make *make; void *store; };
static void *galley_kv_put(struct galley_store *a) {
	return galley_error(a->make, INTERNAL,
		galleyValuePut((uintptr_t)a->store, a->key, a->key_size, a->value, a->value_size));
}

struct galley_create { size_t size; void *extensions; const void *options; size_t num_options; void *get,
	*get_store, *put,
	*put_store, *client, *try, *try_store; };

// The functions of clients that plugins have, by their tables, and the store of the client that a thread
// makes.
enum { CLIENT_CREATE = 10, MOST = 64 };
typedef void *(*galley_fn)(void *args);
static galley_fn originals[MOST];
static __thread uintptr_t galley_values;
static __thread int galley_which;

// galley_client_create adds the callbacks to the arguments: go-xla has none.
static void *galley_client_create(struct galley_create *a) {
	if (galley_values != 0) {
		void *store = (void *)galley_values;
		a->get = (void *)galley_kv_get; a->get_store = store;
		a->put = (void *)galley_kv_put; a->put_store = store;
		if (a->size >= sizeof *a) { a->try = (void *)galley_kv_try; a->try_store = store; }
	}
	return originals[galley_which](a);
}

// galley_table is a copy of a plugin's table by which clients are made so.
static void *galley_table(const void *api, int which) {
	size_t size = *(const size_t *)api;
	char *copy = malloc(size);
	memcpy(copy, api, size);
	galley_fn *functions = (galley_fn *)(copy + 40);
	originals[which] = functions[CLIENT_CREATE];
	functions[CLIENT_CREATE] = (galley_fn)galley_client_create;
	return copy;
}

static void galley_use(uintptr_t store, int which) { galley_values = store; galley_which = which; }
*/
import "C"

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"

	"github.com/gomlx/go-xla/pjrt"
)

// tables holds the function tables of plugins whose clients use callbacks, by go-xla's object.
var tables = struct {
	sync.Mutex
	which map[*pjrt.Plugin]int
}{which: map[*pjrt.Plugin]int{}}

// create makes a client, with callbacks for values if there are any: the store is kept for the life of the
// process, since plugins may call at any time.
func create(plugin *pjrt.Plugin, c Config) (*pjrt.Client, error) {
	if c.Values == nil {
		return plugin.NewClient(pjrt.NamedValuesMap(c.options()))
	}
	which, err := tableOf(plugin)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread() // the store belongs to this thread until the client is made
	defer runtime.UnlockOSThread()
	C.galley_use(C.uintptr_t(cgo.NewHandle(c.Values)), C.int(which))
	defer C.galley_use(0, C.int(which))
	return plugin.NewClient(pjrt.NamedValuesMap(c.options()))
}

// tableOf gives go-xla's object a function table of our own, once.
func tableOf(plugin *pjrt.Plugin) (int, error) {
	tables.Lock()
	defer tables.Unlock()
	if which, ok := tables.which[plugin]; ok {
		return which, nil
	}
	which := len(tables.which)
	if which >= C.MOST {
		return 0, fmt.Errorf("xla: more than %d plugins", C.MOST)
	}
	api := (*unsafe.Pointer)(unsafe.Pointer(reflect.ValueOf(plugin).Elem().FieldByName("api").UnsafeAddr()))
	*api = C.galley_table(*api, C.int(which))
	tables.which[plugin] = which
	return which, nil
}
