package auto

import (
	"errors"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Machine is the set of devices that is planned for.
type Machine struct {
	// Name describes the machine.
	Name string
	// Devices is the number of devices, Memory the bytes that each may use.
	Devices int
	Memory  float64
	// Usual means that nothing was measured: times are those of typical machines.
	Usual bool
	// clock returns the machine model by which a step on the given devices, apart of them per stage, is priced.
	clock func(devices, apart int) step.Machine
}

// Cores returns in-process devices that share a machine's cores and threads.
func Cores(h *plan.Host, devices, threads int, memory float64) Machine {
	return Machine{
		Name: fmt.Sprintf("%d in-process devices", devices), Devices: devices, Memory: memory,
		clock: func(int, int) step.Machine {
			return step.Machine{Cores: h.Cores, Threads: threads, Crowd: h.Crowd, Latency: h.Idle, Spread: h.Spread,
				Prices: h}
		},
	}
}

// Cluster returns the devices of a cluster, each with a processor and memory of its own.
func Cluster(hw *cluster.Cluster, cal plan.Calibration, precision string) (Machine, error) {
	chips, err := plan.NewChips(hw, cal, precision)
	if err != nil {
		return Machine{}, err
	}
	m := Machine{Name: hw.String(), Devices: hw.Size()}
	for _, g := range hw.Filled().Groups {
		if m.Memory == 0 || g.Device.Memory < m.Memory {
			m.Memory = g.Device.Memory
		}
	}
	m.clock = func(devices, apart int) step.Machine {
		own := *chips
		own.Apart = apart
		// Devices with cores of their own do not take turns.
		return step.Machine{Cores: devices, Threads: devices, Crowd: 1, Slice: math.Inf(1), Prices: &own}
	}
	return m, nil
}

// threads returns the number of threads of each device.
func threads(m step.Machine, devices int) int { return max(1, min(m.Threads/devices, m.Cores)) }

// prices returns the cost model for package seed, for the tensor axis of a strategy.
func (m Machine) prices(axis *mesh.Mesh, s strategy.Strategy) spmd.Prices {
	clock := m.clock(s.Devices(), s.DP*s.TP)
	n := threads(clock, s.Devices())
	prices := step.PricesOf(clock, n)
	prices.Default = linkOf(clock.Prices, axis, n)
	return prices
}

// linkOf returns the price of sums over a mesh as seconds per sum and per byte that is sent.
func linkOf(p step.Pricer, m *mesh.Mesh, threads int) spmd.Link {
	price := func(elements int) (seconds, bytes float64) {
		b := ir.NewBuilder("sum")
		x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{elements}})
		n := op.AllReduce(x, m, mesh.On(strategy.TensorAxis), mesh.Sum).Node()
		return p.Node(n, threads), n.Op().(op.Op).Work([]ir.Type{x.Type()}, []ir.Type{x.Type()}).Wire
	}
	few, fewBytes := price(16)
	many, manyBytes := price(1 << 20)
	beta := max(0, (many-few)/(manyBytes-fewBytes))
	return spmd.Link{Alpha: max(1e-9, few-beta*fewBytes), Beta: max(1e-15, beta)}
}

// Local returns in-process devices of this machine, with the text of a file of galley calibrate, or with
// typical values if there is none.
func Local(devices, threads int, calibration []byte) (Machine, error) {
	host := plan.UsualHost(cluster.Cores())
	if len(calibration) > 0 {
		cal, err := plan.ParseCalibration(calibration)
		if err != nil {
			return Machine{}, err
		}
		if cal.Host == nil {
			return Machine{}, errors.New(
				"auto: the calibration says nothing of this machine's cores: want one that galley calibrate measured",
			)
		}
		host = cal.Host
	}
	if threads == 0 {
		threads = host.Cores
	}
	hw := cluster.Local(cluster.LocalConfig{Devices: devices})
	m := Cores(host, max(1, devices), threads, hw.Groups[0].Device.Memory)
	m.Usual = len(calibration) == 0
	return m, nil
}

// On returns the devices of a cluster as cluster.Parse reads it; with mixed precision, products are priced in
// that precision.
func On(text, amp string, calibration []byte) (Machine, error) {
	hw, err := cluster.Parse(text)
	if err != nil {
		return Machine{}, err
	}
	cal := plan.Calibration{}
	if len(calibration) > 0 {
		if cal, err = plan.ParseCalibration(calibration); err != nil {
			return Machine{}, err
		}
	}
	precision := map[string]string{"": "fp32", "off": "fp32", "bf16": "bf16", "f16": "fp16"}[amp]
	return Cluster(hw, cal, precision)
}
