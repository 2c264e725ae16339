package forecast

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/models"
)

// Run is a training run to plan for.
type Run struct {
	Model models.Config
	// Batch is the sequences of a step and Seq the tokens of each.
	Batch, Seq int
	// Devices is the number of in-process devices.
	Devices int
	// Calibration is the text of a file of galley calibrate; empty means a typical machine.
	Calibration []byte
	// AMP is as in Strategy.
	AMP string
	// Hosts lists the hosts of a job's processes, in order, each with equally many devices; empty means this
	// process alone.
	Hosts []Host
	// Cluster is the text of a file of galley doctor --cluster with the measured links of these processes; empty
	// means typical ones.
	Cluster []byte
}

// workload returns the run in the planner's form.
func (r Run) workload() (plan.Workload, error) {
	m, err := Shape(r.Model)
	if err != nil {
		return plan.Workload{}, err
	}
	w := plan.Workload{Model: m, Batch: r.Batch, Seq: r.Seq, Precision: "fp32", Software: r.software(m)}
	if r.AMP == "bf16" || r.AMP == "f16" {
		w.Precision = map[string]string{"bf16": "bf16", "f16": "fp16"}[r.AMP]
	}
	return w, w.Check()
}

// layerTensors is the usual number of a layer's large parameters: four of attention, three of a gated
// feed-forward layer. Gradients of fewer elements than leastBucket are reduced together.
const (
	layerTensors = 7
	leastBucket  = 12500
)

// software describes Galley's own steps on cores: a parameter's gradient is reduced by itself and after the
// backward pass, except between machines, because the cores that compute also copy.
func (r Run) software(m plan.Model) plan.Software {
	s := plan.Software{SumGrads: true, Sync: true,
		Bucket: max(leastBucket, m.Params()/float64(layerTensors*m.Layers))}
	for _, h := range r.Hosts {
		s.Sync = s.Sync && h.Machine == r.Hosts[0].Machine
	}
	return s
}

// machine returns a cluster of the given number of devices, and its calibration: that of the job if it is all
// of them, else this machine.
func (r Run) machine(devices int, w plan.Workload) (*cluster.Cluster, plan.Calibration, error) {
	if devices == r.Devices && len(r.Cluster) > 0 {
		return r.discovered(w)
	}
	if devices == r.Devices && processes(r.Hosts) > 1 {
		alone := r
		alone.Hosts = nil
		return alone.hosts(r.Hosts, w)
	}
	hw := cluster.Local(cluster.LocalConfig{Devices: devices})
	if len(r.Calibration) == 0 {
		return hw, plan.Default(hw, w), nil
	}
	cal, err := plan.ParseCalibration(r.Calibration)
	if err != nil || cal.Cluster == "" {
		return hw, cal, err
	}
	measured, err := cluster.Parse(cal.Cluster)
	if err != nil {
		return nil, cal, fmt.Errorf("calibration: cluster: %w", err)
	}
	hw, err = shared(measured, hw)
	return hw, cal, err
}

// shared returns a measured machine whose cores and memory are shared by another number of in-process
// devices. Traffic between two devices goes through the same memory, however many there are.
func shared(measured, here *cluster.Cluster) (*cluster.Cluster, error) {
	if len(measured.Groups) != 1 || measured.Groups[0].Hosts != 1 ||
		measured.Groups[0].Device.Name != here.Groups[0].Device.Name {
		return nil, fmt.Errorf(
			"calibration: it measured %s: in-process devices are %s: measure this machine with galley calibrate",
			measured,
			here,
		)
	}
	from, out := measured.Groups[0], *here
	to := here.Groups[0]
	part := float64(from.Devices) / float64(to.Devices)
	to.Device.Bandwidth = from.Device.Bandwidth * part
	to.Device.Rates = nil
	for _, rate := range from.Device.Rates {
		rate.Peak, rate.Measured = rate.Peak*part, rate.Measured*part
		to.Device.Rates = append(to.Device.Rates, rate)
	}
	if from.Devices > 1 { // with one device alone there is no exchange to measure
		to.Fabric = from.Fabric
	}
	out.Groups = []cluster.Group{to}
	return &out, nil
}
