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

// The versions of the plugin API that this binary supports: exactly this major version, and minor versions
// from the first that has all functions in use.
const (
	pjrtMajor    = 0
	pjrtMinorMin = 54
)

// peek loads a plugin's library and reads its API version, before anything calls functions of a table that
// might not match. It returns the function table.
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

// preload loads a library so that those loaded later find it by name. A failure is ignored: it is then not
// needed here.
func preload(path string) { open(path, C.RTLD_LAZY|C.RTLD_GLOBAL) }

func open(path string, mode C.int) unsafe.Pointer {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return C.galley_open(name, mode)
}
