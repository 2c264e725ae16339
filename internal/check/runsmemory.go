package check

import "strings"

// memoryKind is what a source's figure counts.
type memoryKind int

const (
	reservedMemory  memoryKind = iota // what a framework's allocator took from the device
	allocatedMemory                   // what of it was in use at the peak
	deviceMemory                      // all that the device reports as taken, by nvidia-smi
)

// kind is what the unit of a figure tells. Gigabytes without another word are taken for what nvidia-smi showed.
func (m *runMeasured) kind() memoryKind {
	switch unit := strings.ToLower(m.Unit); {
	case strings.Contains(unit, "alloc"):
		return allocatedMemory
	case strings.Contains(unit, "smi"), unit == "gb":
		return deviceMemory
	}
	return reservedMemory
}

// bytes is the figure, or 0 where there is none. nvidia-smi prints MiB: who reports gigabytes of it left out the last three digits.
func (m *runMeasured) bytes() float64 {
	switch {
	case m.Memory == nil || *m.Memory <= 0:
		return 0
	case m.Unit == "" || strings.Contains(m.Unit, "GiB"):
		return *m.Memory * (1 << 30)
	case m.kind() == deviceMemory:
		return *m.Memory * 1000 * (1 << 20)
	}
	return *m.Memory * 1e9
}

// predictedMemory is in the source's own terms. nvidia-smi shows the devices of one host, and is run where a job is started: on the first.
func (c *runCase) predictedMemory() float64 {
	m := &c.got.Memory
	switch c.row.Measured.kind() {
	case allocatedMemory:
		return m.Allocated()
	case reservedMemory:
		return m.Allocated() + m.Slack
	}
	host, s, most := c.cluster.Groups[0].Devices, &c.strategy, 0.0
	for i := range c.got.Stages {
		if i*s.TP*s.CP*s.DP < host {
			most = max(most, c.got.Stages[i].Memory.Total())
		}
	}
	return most
}
