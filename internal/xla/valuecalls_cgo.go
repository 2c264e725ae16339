//go:build cgo && linux

package xla

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"context"
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// galleyValuePut is the callback by which plugins put a value.
//
//export galleyValuePut
func galleyValuePut(
	store C.uintptr_t,
	key *C.char,
	keySize C.size_t,
	value *C.char,
	valueSize C.size_t,
) *C.char {
	values := cgo.Handle(store).Value().(KeyValues)
	if err := values.Put(C.GoStringN(key, C.int(keySize)),
		C.GoBytes(unsafe.Pointer(value), C.int(valueSize))); err != nil {
		return C.CString(err.Error())
	}
	return nil
}

// galleyValueGet is the callback by which plugins get a value: at once, or within a timeout.
//
//export galleyValueGet
func galleyValueGet(store C.uintptr_t, key *C.char, keySize C.size_t, wait C.int, value **C.char,
	valueSize *C.size_t) *C.char {
	values, name := cgo.Handle(store).Value().(KeyValues), C.GoStringN(key, C.int(keySize))
	data, ok := values.TryGet(name)
	if !ok && wait > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(wait)*time.Millisecond)
		defer cancel()
		var err error
		if data, err = values.Get(ctx, name); err != nil {
			return C.CString(err.Error())
		}
		ok = true
	}
	if !ok {
		return C.CString(fmt.Sprintf("no value for %q", name))
	}
	*value, *valueSize = (*C.char)(C.CBytes(data)), C.size_t(len(data))
	return nil
}
