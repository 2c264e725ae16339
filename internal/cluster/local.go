package cluster

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// LocalConfig selects what to use of this machine.
type LocalConfig struct {
	// Devices is the number of in-process devices that share the machine; 0 means 1.
	Devices int
}

// Local returns this machine as a cluster of in-process devices that share its cores and memory. Its rates
// are typical ones until they are measured (galley calibrate).
func Local(c LocalConfig) *Cluster {
	n := max(1, c.Devices)
	share := float64(Cores()) / float64(n)
	return &Cluster{Name: "local", Groups: []Group{{
		Hosts: 1, Devices: n,
		Device: Device{
			Name:      coresName + runtime.GOARCH,
			Memory:    machineMemory() / float64(n),
			Bandwidth: 20e9 / float64(n),
			Rates:     []Rate{{Format: "fp32", Peak: CoreRate * share}},
			Units:     max(1, int(share)),
		},
		Fabric: Link{Kind: "memory", Bandwidth: 5e9, Setup: wakeTime},
	}}}
}

// wakeTime is what a collective of in-process devices takes before it moves anything: the devices that came
// first have gone to sleep, and each is woken, with its core.
const wakeTime = 27e-6

// Cores returns the number of cores that this process could use when it started: processes that share a host
// use fewer later, but the machine is the same.
func Cores() int { return cores }

var cores = runtime.GOMAXPROCS(0)

// CoreRate is the float32 rate of a core with AVX2: two fused multiply-adds of eight lanes at about 3
// GHz.
const CoreRate = 96e9

// coresName begins the names of devices that are cores of a machine.
const coresName = "cpu-"

// IsCPU reports whether the device is cores of a machine, not an accelerator.
func (d *Device) IsCPU() bool { return strings.HasPrefix(d.Name, coresName) }

// machineMemory returns the machine's memory in bytes; if the system does not report it, a usual
// amount.
func machineMemory() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		for line := range bytes.Lines(text) {
			f := bytes.Fields(line)
			if len(f) >= 2 && string(f[0]) == "MemTotal:" {
				if kib, err := strconv.ParseFloat(string(f[1]), 64); err == nil && kib > 0 {
					return kib * 1024
				}
			}
		}
	}
	return 4 << 30
}
