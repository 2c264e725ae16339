//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// LibraryVariable names the library's file, if it is not found by default or another one is wanted.
const LibraryVariable = "GALLEY_MPI_LIBRARY"

// names are the files of the families' libraries for the dynamic linker. The last ones implement MPI's
// standard ABI, which libraries of either family may provide.
var names = map[Family][]string{
	OpenMPI: {"libmpi.so.40", "libmpi.so.80", "libmpi.40.dylib", "libmpi.dylib", "libmpi_abi.so.0",
		"libmpi_abi.0.dylib"},
	MPICH: {"libmpich.so.12", "libmpi.so.12", "libmpich.so", "libmpi.12.dylib", "libmpich.12.dylib",
		"libmpi_abi.so.0", "libmpi_abi.0.dylib"},
}

// library is a loaded MPI library.
type library struct {
	abi
	file    string
	version string // the first line of its version text

	initThread, commDup, setErrhandler, commRank, commSize, getAttr fn
	isend, irecv, testsome, getCount, cancel, ibarrier, allreduce   fn
	abort, finalize, errorString, libraryVersion, initialized       fn
}

// fn is the address of a C function.
type fn uintptr

// call calls a C function that returns an int. Pointers are passed as uintptr, converted within the call:
// without the directive below, what they point to could be on the goroutine's stack, and C would write to the
// wrong place if the stack grew and moved meanwhile.
//
//go:uintptrescapes
func (f fn) call(args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return int32(r)
}

// abi holds the constants that differ between the families.
type abi struct {
	family        Family
	world, byte   uintptr
	errorsReturn  uintptr
	float, sum    uintptr
	handleBytes   int
	anySource     int
	tagUB         int
	statusBytes   int
	statusSource  int // offset
	statusError   int // offset
	undefined     int32
	threadsWanted int32
}

// mpichABI returns the constants of the ABI that MPICH and its derivatives share.
func mpichABI() abi {
	return abi{
		family: MPICH, world: 0x44000000, byte: 0x4c00010d, errorsReturn: 0x54000001,
		float: 0x4c00040a, sum: 0x58000003,
		handleBytes: 4, anySource: -2, tagUB: 0x64400001, statusBytes: 20, statusSource: 8, statusError: 16,
		undefined: -32766, threadsWanted: 2,
	}
}

// openMPIABI returns the constants of Open MPI, whose handles are addresses of objects in the library.
func openMPIABI(handle uintptr) (abi, error) {
	a := abi{
		family: OpenMPI, handleBytes: 8, anySource: -1, tagUB: 0, statusBytes: 24, statusSource: 0, statusError: 8,
		undefined: -32766, threadsWanted: 2,
	}
	for name, to := range map[string]*uintptr{
		"ompi_mpi_comm_world": &a.world, "ompi_mpi_byte": &a.byte, "ompi_mpi_errors_return": &a.errorsReturn,
		"ompi_mpi_float": &a.float, "ompi_mpi_op_sum": &a.sum,
	} {
		var err error
		if *to, err = purego.Dlsym(handle, name); err != nil {
			return a, err
		}
	}
	return a, nil
}

// standardABI returns the constants of MPI's standard ABI, of MPI 5.0 (libmpi_abi.so).
func standardABI(family Family) abi {
	return abi{
		family: family, world: 0x101, byte: 0x247, errorsReturn: 0x142, float: 0x210, sum: 0x21,
		handleBytes: 8, anySource: -1, tagUB: 501, statusBytes: 32, statusSource: 0, statusError: 8,
		undefined: -32766, threadsWanted: 2048,
	}
}

// isStandard reports whether a library implements MPI's standard ABI: others report its version as -1, or
// lack the function.
func isStandard(handle uintptr) bool {
	address, err := purego.Dlsym(handle, "MPI_Abi_get_version")
	if err != nil {
		return false
	}
	var major, minor int32
	code := fn(address).call(uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor)))
	return code == 0 && major == 1
}

// settings are environment variables for libraries, set before these are loaded with C's setenv, since Go's
// Setenv does not reach C without cgo. UCX, under MPICH, and Open MPI catch SIGSEGV, by which Go detects nil
// pointers: a recoverable panic would end the process. UCX prints C stack traces when it aborts, as it does
// when it reads the memory of a killed process.
var settings = [][2]string{
	{"UCX_ERROR_SIGNALS", ""}, {"UCX_HANDLE_ERRORS", "none"}, {"OMPI_MCA_opal_signal", "6"},
}

func setenv(key, value string) error {
	for _, name := range []string{"libc.so.6", "/usr/lib/libSystem.B.dylib"} {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			continue
		}
		set, err := purego.Dlsym(handle, "setenv")
		if err != nil {
			return err
		}
		k, v := append([]byte(key), 0), append([]byte(value), 0)
		if fn(set).call(uintptr(unsafe.Pointer(&k[0])), uintptr(unsafe.Pointer(&v[0])), 1) != 0 {
			return fmt.Errorf("setenv %s: it failed", key)
		}
		return nil
	}
	return errors.New("no C library to set variables with")
}

// load opens the library of a family, or the one that the variable names. With mode RTLD_LOCAL it is only
// inspected, so that two libraries can be loaded side by side.
func load(family Family, mode int) (*library, error) {
	for _, s := range settings {
		if os.Getenv(s[0]) == "" {
			if err := setenv(s[0], s[1]); err != nil {
				return nil, err
			}
		}
	}
	candidates := names[family]
	if file := os.Getenv(LibraryVariable); file != "" {
		candidates = []string{file}
	}
	var first error
	for _, file := range candidates {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|mode)
		if err != nil {
			if first == nil || strings.Contains(first.Error(), "No such file") {
				first = err
			}
			continue
		}
		return newLibrary(file, handle)
	}
	if os.Getenv(LibraryVariable) != "" {
		return nil, fmt.Errorf("%s=%s: %w", LibraryVariable, candidates[0], first)
	}
	return nil, fmt.Errorf("the library of %s was not found (%v): install it, or set %s to its file", family,
		candidates, LibraryVariable)
}

// newLibrary looks up the functions and determines the family.
func newLibrary(file string, handle uintptr) (*library, error) {
	l := &library{file: file}
	for name, to := range map[string]*fn{
		"MPI_Init_thread": &l.initThread, "MPI_Comm_dup": &l.commDup, "MPI_Comm_set_errhandler": &l.setErrhandler,
		"MPI_Comm_rank": &l.commRank, "MPI_Comm_size": &l.commSize, "MPI_Comm_get_attr": &l.getAttr,
		"MPI_Isend": &l.isend, "MPI_Irecv": &l.irecv, "MPI_Testsome": &l.testsome, "MPI_Get_count": &l.getCount,
		"MPI_Cancel": &l.cancel, "MPI_Ibarrier": &l.ibarrier, "MPI_Allreduce": &l.allreduce,
		"MPI_Abort": &l.abort, "MPI_Finalize": &l.finalize, "MPI_Error_string": &l.errorString,
		"MPI_Get_library_version": &l.libraryVersion, "MPI_Initialized": &l.initialized,
	} {
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("%s: no function %s: is it an MPI library of version 3 or later?", file, name)
		}
		*to = fn(address)
	}
	text := make([]byte, 1<<14)
	var n int32
	l.libraryVersion.call(uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	l.version, _, _ = strings.Cut(string(bytes.TrimRight(text[:max(0, min(int(n), len(text)))], "\x00")), "\n")
	// Open MPI adds the name of the packager
	l.version, _, _ = strings.Cut(strings.Join(strings.Fields(l.version), " "), ",")
	return l, l.recognize(handle)
}

// recognize sets the constants of the library's family.
func (l *library) recognize(handle uintptr) error {
	var family Family
	switch {
	case strings.HasPrefix(l.version, "Open MPI"):
		family = OpenMPI
	case strings.HasPrefix(l.version, "MPICH"), strings.Contains(l.version, "MVAPICH"),
		strings.HasPrefix(l.version, "Intel(R) MPI"):
		family = MPICH
	default:
		return fmt.Errorf("%s is %q: want Open MPI or a library with MPICH's binary interface", l.file, l.version)
	}
	var err error
	switch {
	case isStandard(handle):
		l.abi = standardABI(family)
		l.version += " (standard ABI)"
	case family == OpenMPI:
		l.abi, err = openMPIABI(handle)
	default:
		l.abi = mpichABI()
	}
	return err
}

// describe returns the library's text for an error code.
func (l *library) describe(code int32) string {
	text := make([]byte, 1<<13)
	var n int32
	if l.errorString.call(uintptr(code), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n))) != 0 {
		return fmt.Sprintf("error %d", code)
	}
	return string(text[:max(0, min(int(n), len(text)))])
}
