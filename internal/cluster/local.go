package cluster

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
)

// LocalConfig says what of this machine to use.
type LocalConfig struct {
	// Devices is how many in-process devices share the machine; 0 is 1.
	Devices int
}

// Local returns this machine as a cluster of in-process devices that share its cores and memory. Its rates
// are what a core usually does until they are measured (galley calibrate).
func Local(c LocalConfig) *Cluster {
	n := max(1, c.Devices)
	share := float64(Cores()) / float64(n)
	return &Cluster{Name: "local", Groups: []Group{{
		Hosts: 1, Devices: n,
		Device: Device{
			Name:      "cpu-" + runtime.GOARCH,
			Memory:    machineMemory() / float64(n),
			Bandwidth: 20e9 / float64(n),
			Rates:     []Rate{{Format: "fp32", Peak: coreRate * share}},
		},
		Fabric: Link{Kind: "memory", Bandwidth: 5e9},
	}}}
}

// Cores returns how many of the machine's this process might use when it began: processes that share a host
// keep to fewer later, which makes the machine no smaller.
func Cores() int { return cores }

var cores = runtime.GOMAXPROCS(0)

// coreRate is what a core with AVX2 multiplies in float32: two fused operations of eight lanes at about 3
// GHz.
const coreRate = 96e9

// machineMemory returns the machine's memory in bytes; where the system does not tell, what Go programs may
// count on.
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
