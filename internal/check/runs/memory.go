package runs

import (
	"strings"

	"github.com/galley-ml/galley/internal/cluster"
)

// memoryKind is what a source's memory figure includes.
type memoryKind int

const (
	reservedMemory  memoryKind = iota // what a framework's allocator reserved on the device
	allocatedMemory                   // what of it was in use at the peak
	deviceMemory                      // all memory in use on the device, by nvidia-smi
)

// kind returns the kind of a figure by its unit. Plain gigabytes are assumed to be from
// nvidia-smi.
func (m *runMeasured) kind() memoryKind {
	switch unit := strings.ToLower(m.Unit); {
	case strings.Contains(unit, "alloc"):
		return allocatedMemory
	case strings.Contains(unit, "smi"), unit == "gb":
		return deviceMemory
	}
	return reservedMemory
}

// bytes returns the figure, or 0 if there is none. nvidia-smi prints MiB: gigabytes reported from it omit the
// last three digits.
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

// predictedMemory returns the prediction of the figure's kind. nvidia-smi shows the devices of one host, and
// is run where a job is started: on the first.
func (c *runCase) predictedMemory() float64 {
	kind := c.row.Measured.kind()
	if kind == allocatedMemory {
		return c.got.Memory.Allocated()
	}
	host, per, most := c.cluster.Groups[0].Devices, c.stageDevices(), 0.0
	for i := range c.got.Stages {
		m := &c.got.Stages[i].Memory
		switch room := c.room(i); {
		case kind == reservedMemory:
			most = max(most, min(m.Reserved(), max(room-m.Context, m.Allocated()+m.Slack)))
		case i*per < host:
			most = max(most, min(m.Reserved()+m.Context, max(room, m.Total())))
		}
	}
	return most
}

// stageDevices returns how many devices one pipeline stage has.
func (c *runCase) stageDevices() int { return c.strategy.TP * c.strategy.CP * c.strategy.DP }

// fits reports whether a run can start and every stage's devices have enough memory.
func (c *runCase) fits() bool {
	for i := range c.got.Stages {
		if c.got.Stages[i].Memory.Total() > c.room(i) {
			return false
		}
	}
	return !c.broken
}

// room returns the least memory that a device of a stage reports.
func (c *runCase) room(stage int) float64 {
	per := c.stageDevices()
	first, last := c.cluster.At(stage*per).Group, c.cluster.At((stage+1)*per-1).Group
	least := reported(&c.cluster.Groups[first].Device)
	for g := first + 1; g <= last; g++ {
		least = min(least, reported(&c.cluster.Groups[g].Device))
	}
	return least
}

// reported returns the bytes that a device reports: gigabytes as sold are GiB, of which the driver reserves a
// hundredth; devices whose error correction is stored in the memory itself lose a sixteenth.
func reported(d *cluster.Device) float64 {
	bytes := d.Memory / 1e9 * (1 << 30) * 0.99
	for _, name := range []string{"T4", "A10-", "A40", "L4", "L40"} {
		if strings.HasPrefix(d.Name, name) {
			return bytes * 15 / 16
		}
	}
	return bytes
}
