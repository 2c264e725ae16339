//go:build (linux || darwin) && (amd64 || arm64)

package discover

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nvmlVariable names the library where it is not found by itself.
const nvmlVariable = "GALLEY_NVML_LIBRARY"

// nvml is the functions of NVIDIA's management library, by name.
type nvml map[string]uintptr

var nvmlFunctions = []string{"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetNvLinkState",
	"nvmlDeviceGetNvLinkVersion", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
	"nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus"}

// gpus asks the library, if there is one.
func gpus() ([]GPU, error) {
	l, err := loadNVML()
	if err != nil {
		return nil, err
	}
	if code := l.call("nvmlInit_v2"); code != 0 {
		return nil, fmt.Errorf("NVML does not start: error %d", code)
	}
	defer l.call("nvmlShutdown")
	var n uint32
	if code := l.call("nvmlDeviceGetCount_v2", uintptr(unsafe.Pointer(&n))); code != 0 {
		return nil, fmt.Errorf("NVML does not count its devices: error %d", code)
	}
	handles := make([]uintptr, n)
	list := make([]GPU, n)
	for i := range handles {
		if code := l.call("nvmlDeviceGetHandleByIndex_v2", uintptr(i),
			uintptr(unsafe.Pointer(&handles[i]))); code != 0 {
			return nil, fmt.Errorf("NVML: GPU %d: error %d", i, code)
		}
		list[i] = l.gpu(handles[i])
	}
	for i := range list {
		for j := range list {
			list[i].Paths = append(list[i].Paths, l.path(handles[i], handles[j], i == j))
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("NVML sees none")
	}
	return list, nil
}

func loadNVML() (nvml, error) {
	file := os.Getenv(nvmlVariable)
	if file == "" {
		file = "libnvidia-ml.so.1"
	}
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("no NVML: %s is not here", file)
	}
	l := nvml{}
	for _, name := range nvmlFunctions {
		if l[name], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%s has no function %s: it is too old", file, name)
		}
	}
	return l, nil
}

// call makes a call; addresses in args stay where they are meanwhile.
//
//go:uintptrescapes
func (l nvml) call(name string, args ...uintptr) int32 {
	code, _, _ := purego.SyscallN(l[name], args...)
	return int32(code)
}

// ask returns a call that fills in one number, 0 where it fails. Addresses become numbers in the call itself:
// only there are they held.
func (l nvml) ask(name string, device uintptr, more ...uintptr) (x uint32) {
	code := int32(0)
	if len(more) > 0 {
		code = l.call(name, device, more[0], uintptr(unsafe.Pointer(&x)))
	} else {
		code = l.call(name, device, uintptr(unsafe.Pointer(&x)))
	}
	if code != 0 {
		return 0
	}
	return x
}

// maxLinks is how many NVLinks a GPU has at most.
const maxLinks = 18

func (l nvml) gpu(device uintptr) GPU {
	var g GPU
	name := make([]byte, 96)
	if l.call("nvmlDeviceGetName", device, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name))) == 0 {
		text, _, _ := bytes.Cut(name, []byte{0})
		g.Name = string(text)
	}
	memory := make([]uint64, 3) // total, free, used
	if l.call("nvmlDeviceGetMemoryInfo", device, uintptr(unsafe.Pointer(&memory[0]))) == 0 {
		g.Memory = float64(memory[0])
	}
	for link := range uintptr(maxLinks) {
		if l.ask("nvmlDeviceGetNvLinkState", device, link) == 1 {
			g.NVLinks++
			g.NVLink = nvlinkBytes[l.ask("nvmlDeviceGetNvLinkVersion", device, link)]
		}
	}
	g.PCIe = pcieBytes[l.ask("nvmlDeviceGetMaxPcieLinkGeneration", device)] *
		float64(l.ask("nvmlDeviceGetMaxPcieLinkWidth", device))
	return g
}

// path returns how the way between two GPUs goes.
func (l nvml) path(a, b uintptr, same bool) string {
	if same {
		return "itself"
	}
	const overNVLink = 4 // NVML_P2P_CAPS_INDEX_NVLINK; status 0 is OK
	status := uint32(1)
	if l.call("nvmlDeviceGetP2PStatus", a, b, overNVLink, uintptr(unsafe.Pointer(&status))) == 0 && status == 0 {
		return "nvlink"
	}
	return ancestors[l.ask("nvmlDeviceGetTopologyCommonAncestor", a, b)]
}
