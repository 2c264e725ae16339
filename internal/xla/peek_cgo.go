//go:build cgo && linux

package xla

// #cgo LDFLAGS: -ldl
/*
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

// The head of the plugin's table of functions, which all its versions share.
struct head {
	size_t size;
	void *extensions;
	size_t version_size;
	void *version_extensions;
	int major, minor;
};

static void *galley_open(const char *path, int mode) { return dlopen(path, mode); }

static const char *galley_peek(void *lib, const void **table, int *major, int *minor) {
	void *sym = dlsym(lib, "GetPjrtApi");
	if (sym == NULL) return "it has no function GetPjrtApi";
	const struct head *api = ((const struct head *(*)(void))sym)();
	if (api == NULL) return "GetPjrtApi returned nothing";
	*table = api;
	*major = api->major;
	*minor = api->minor;
	return NULL;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// The versions of the plugin interface that this binary speaks: the major one exactly, minor ones from the
// first that has all that is called.
const (
	pjrtMajor    = 0
	pjrtMinorMin = 54
)

// peek loads the library of a plugin and reads its version, before anything calls it through a table that
// might be another. It returns the table of its functions.
func peek(path string) (unsafe.Pointer, error) {
	lib := open(path, C.RTLD_LAZY|C.RTLD_LOCAL)
	if lib == nil {
		return nil, fmt.Errorf("xla: plugin %s: cannot be loaded: %s", path, C.GoString(C.dlerror()))
	}
	var table unsafe.Pointer
	var major, minor C.int
	if fault := C.galley_peek(lib, &table, &major, &minor); fault != nil {
		C.dlclose(lib)
		return nil, fmt.Errorf("xla: plugin %s: it is no PJRT plugin: %s", path, C.GoString(fault))
	}
	if major != pjrtMajor || minor < pjrtMinorMin {
		C.dlclose(lib)
		return nil, fmt.Errorf("xla: plugin %s: wrong version: got PJRT %d.%d, want %d.%d or later: use JAX 0.5 "+
			"or later's plugin",
			path, major, minor, pjrtMajor, pjrtMinorMin)
	}
	return table, nil
}

// preload makes a library known by its name to those that are loaded later. One that does not load is not
// needed here.
func preload(path string) { open(path, C.RTLD_LAZY|C.RTLD_GLOBAL) }

func open(path string, mode C.int) unsafe.Pointer {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return C.galley_open(name, mode)
}
