package forecast

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Host is one of the hosts of a job: its processes share its cores. Hosts on one machine communicate through
// its memory.
type Host struct {
	Machine          string
	Processes, Cores int
}

// ethernet is the assumed link between machines of which nothing else is known: 10 Gbit/s.
var ethernet = cluster.Link{Kind: "eth", Bandwidth: 1.25e9}

// between returns the link between processes of one machine: data that one writes to memory another has to
// fetch, and a collective begins with a note in each direction. docs/processes.md has the measurements.
func between(memory cluster.Link) cluster.Link {
	memory.Bandwidth /= 2
	memory.Latency, memory.Setup = 5e-6, 10e-6
	return memory
}

// processes returns the number of processes on hosts.
func processes(hosts []Host) (n int) {
	for _, h := range hosts {
		n += h.Processes
	}
	return n
}

// discovered returns the cluster that the processes of the job have measured: a device is one of them.
func (r Run) discovered(w plan.Workload) (*cluster.Cluster, plan.Calibration, error) {
	hw, err := cluster.Parse(string(r.Cluster))
	if err != nil {
		return nil, plan.Calibration{}, fmt.Errorf("cluster: %w", err)
	}
	var measured []int // by host
	for _, g := range hw.Groups {
		for range g.Hosts {
			measured = append(measured, g.Devices)
		}
	}
	var here []int
	for _, h := range r.Hosts {
		here = append(here, h.Processes)
	}
	if len(here) > 0 && !slices.Equal(here, measured) || hw.Size() != r.Devices {
		return nil, plan.Calibration{}, fmt.Errorf(
			"cluster: it has devices by host %v, the job has %d devices and processes by host %v: "+
				"measure with galley doctor --cluster under the same launcher", measured, r.Devices, here)
	}
	if len(r.Calibration) == 0 {
		return hw, plan.Default(hw, w), nil
	}
	cal, err := plan.ParseCalibration(r.Calibration)
	return hw, cal, err
}

// OnHosts returns the predicted seconds of a step on hosts, with a strategy whose devices their processes
// share evenly or, if that is nil, with the best for r.Devices, or for a device each.
func OnHosts(r Run, hosts []Host, given *strategy.Strategy) (float64, error) {
	if given != nil {
		s, err := given.WithDefaults()
		if err != nil {
			return 0, err
		}
		given, r.Devices, r.AMP = &s, s.Devices(), s.AMP
	}
	w, err := r.workload()
	if err != nil {
		return 0, err
	}
	hw, cal, err := r.hosts(hosts, w)
	if err != nil {
		return 0, err
	}
	if given == nil {
		a, err := r.search(hw, cal, w, 1)
		if err != nil {
			return 0, err
		}
		if a.Misfit != nil {
			return 0, a.Misfit
		}
		return a.Plans[0].Estimate.Step, nil
	}
	e, err := plan.NewEstimator(w, hw, cal)
	if err != nil {
		return 0, err
	}
	out, err := e.Estimate(*given)
	return out.Step, err
}

// hosts returns a cluster of hosts like this machine, each with its own number of cores. Equal ones form a
// group.
func (r Run) hosts(list []Host, w plan.Workload) (*cluster.Cluster, plan.Calibration, error) {
	n, one := processes(list), true
	for _, h := range list {
		one = one && h.Machine == list[0].Machine
	}
	each := 1 // devices of a process
	if r.Devices > 0 && n > 0 {
		each = r.Devices / n
	}
	if n == 0 || each == 0 || r.Devices > 0 && each*n != r.Devices {
		return nil, plan.Calibration{}, fmt.Errorf(
			"%d devices for %d processes: want as many for each",
			r.Devices,
			n,
		)
	}
	here, cal, err := r.machine(1, w)
	if err != nil {
		return nil, cal, err
	}
	out := &cluster.Cluster{Name: "hosts"}
	var last Host
	for _, h := range list {
		if groups := len(out.Groups); groups > 0 && h.Processes == last.Processes && h.Cores == last.Cores {
			out.Groups[groups-1].Hosts++
			continue
		}
		last = h
		g := divided(here.Groups[0], each*h.Processes, h.Cores)
		if g.NIC, g.NICs = ethernet, 1; one {
			g.NIC, g.NICs = between(g.Fabric), g.Devices
		}
		if h.Processes > 1 {
			g.Fabric = between(g.Fabric)
		}
		out.Groups = append(out.Groups, g)
	}
	return out, cal, out.Check()
}

// divided returns this machine as if it had the given number of cores, shared by the given number of devices.
func divided(g cluster.Group, devices, cores int) cluster.Group {
	own := cluster.Cores()
	if cores == 0 {
		cores = own
	}
	part := float64(cores) / float64(own) / float64(devices)
	d := g.Device
	d.Memory, d.Bandwidth, d.Rates = d.Memory/float64(devices), d.Bandwidth*part, nil
	for _, rate := range g.Device.Rates {
		rate.Peak, rate.Measured = rate.Peak*part, rate.Measured*part
		d.Rates = append(d.Rates, rate)
	}
	d.Units = max(1, cores/devices)
	g.Device, g.Devices, g.Hosts = d, devices, 1
	return g
}
