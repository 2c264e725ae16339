package check

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// SelfConfig is what this machine is compared with.
type SelfConfig struct {
	// Calibration is what galley calibrate measured here; Host is the device that computes.
	Calibration plan.Calibration
	Host        *galley.Device
	// Runs is how many steps of each strategy are timed, of which the fastest counts; 0 is 5.
	Runs int
}

// selfCase is one way to lay the training step of a small model over devices.
type selfCase struct {
	mesh, plan, extra string
	predicted, took   float64
	memory, allocated int

	world *galley.World
	exe   *galley.DistributedExecutable
}

// selfCases are 30: every division of 1, 2, 4 and 8 devices among data, sequence and tensor parallelism; those without sequence
// parallelism also with parameters sharded over the replicas; data parallelism alone; and two devices that do the same.
func selfCases() []*selfCase {
	cases := []*selfCase{{mesh: "dp=2", plan: "none", extra: "batch*=@[_,_]"}}
	for _, n := range []int{8, 4, 2, 1} {
		for dp := 1; dp <= n; dp *= 2 {
			for cp := 1; dp*cp <= n; cp *= 2 {
				m := fmt.Sprintf("dp=%d,cp=%d,tp=%d", dp, cp, n/dp/cp)
				cases = append(cases, &selfCase{mesh: m, plan: "megatron", extra: "batch*=@[dp,cp]"})
				if dp > 1 && cp == 1 {
					cases = append(cases, &selfCase{mesh: m, plan: "megatron", extra: "*.[qkv]_proj.weight=@[tp.dp,_]"})
				}
			}
		}
		if n > 1 {
			cases = append(cases, &selfCase{mesh: fmt.Sprintf("dp=%d", n), plan: "data", extra: "*_proj.weight=@[dp,_]"})
		}
	}
	return cases
}

// Self predicts and times strategies of a small model on this machine's in-process devices. It fails where the rank correlation is
// below 0.8, or a predicted peak of memory is not what is then allocated.
func Self(w io.Writer, c SelfConfig) (*Report, error) {
	r := &Report{w: w}
	hw, err := cluster.Parse(c.Calibration.Cluster)
	if err != nil {
		return nil, fmt.Errorf("calibration: the machine it was measured on: %w", err)
	}
	p, args, err := selfStep(c.Host)
	if err != nil {
		return nil, err
	}
	cases := selfCases()
	for _, k := range cases {
		if err := k.prepare(p, hw, &c); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", k.mesh, k.plan, err)
		}
	}
	for range max(c.Runs, 5) { // in turns, so that what else the machine does meets all of them
		for _, k := range cases {
			if err := k.step(args); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", k.mesh, k.plan, err)
			}
		}
	}
	for _, k := range cases {
		var faults []string
		if k.memory != k.allocated {
			faults = append(faults, fmt.Sprintf("memory: predicted %d bytes, planned %d", k.memory, k.allocated))
		}
		r.add(k.mesh+" "+k.plan+" "+k.extra, faults, "")
		fmt.Fprintf(w, "%-16s %-8s %-30s %7.2f ms, predicted %7.2f, %.2f MB a device\n", k.mesh, k.plan, k.extra, 1e3*k.took, 1e3*k.predicted, float64(k.memory)/1e6)
	}
	tau := selfTau(cases)
	fmt.Fprintf(w, "tau %.2f over %d strategies\n", tau, len(cases))
	if tau < 0.8 {
		r.add("tau", []string{fmt.Sprintf("got %.2f, want 0.8", tau)}, "")
	}
	r.last()
	return r, nil
}

// selfStep is the training step of a small Llama, with its arguments.
func selfStep(host *galley.Device) (*galley.Program, []array.Array, error) {
	m, err := models.New(models.Config{Family: "llama", Vocab: 512, Hidden: 128, Intermediate: 384, Layers: 2, Heads: 8, KVHeads: 8, Positions: 64},
		nn.Config{Scope: host.NewSession(), Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	ids := op.Type{DType: array.I32, Shape: array.Shape{16, 64}}
	p, err := galley.TraceStep(galley.TrainerConfig{
		Params: m.Params(), ClipNorm: 1, Loss: func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[1]) },
	}, ids, ids)
	if err != nil {
		return nil, nil, err
	}
	var args []array.Array
	for _, v := range p.Params() {
		a := array.New(v.DType(), v.Shape()...)
		if v.DType() == array.F32 {
			x := array.Data[float32](a)
			for i := range x {
				x[i] = float32(i%17)/170 + 0.01
			}
		}
		args = append(args, a)
	}
	return p, args, nil
}

// prepare lays the step over the devices, predicts it and compiles it.
func (k *selfCase) prepare(p *galley.Program, hw *cluster.Cluster, c *SelfConfig) error {
	m, err := mesh.Parse(k.mesh)
	if err != nil {
		return err
	}
	asked, err := galley.PlanAnnotations(k.plan, p, m)
	if err != nil {
		return err
	}
	extra, err := galley.ParseAnnotation(k.extra)
	if err != nil {
		return err
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m, Annotations: append([]galley.Annotation{extra}, asked...), Next: galley.StepNext(p)})
	if err != nil {
		return err
	}
	if err := k.predict(d, hw, c); err != nil {
		return err
	}
	return k.compile(d, c)
}

// predict prices the device's program: all devices share the machine that was measured, so each has its part of it.
func (k *selfCase) predict(d *galley.Distributed, hw *cluster.Cluster, c *SelfConfig) error {
	local, err := d.Local(0)
	if err != nil {
		return err
	}
	g := hw.Groups[0]
	cost, err := plan.Program(local, &g, c.Calibration, "fp32")
	if err != nil {
		return err
	}
	share := float64(d.Mesh().Size()) / float64(g.Devices)
	k.predicted = share * cost.Seconds()
	mem, err := d.Memory(0)
	k.memory = mem.Peak()
	return err
}

// compile plans the devices' memory; state is updated in its place.
func (k *selfCase) compile(d *galley.Distributed, c *SelfConfig) (err error) {
	if k.world, err = galley.NewWorld(c.Host, d.Mesh().Size()); err != nil {
		return err
	}
	var donate []int
	for _, i := range galley.StepNext(d.Program()) {
		donate = append(donate, i)
	}
	slices.Sort(donate)
	if k.exe, err = d.Compile(k.world, galley.DistributedOptions{Donate: donate}); err != nil {
		return err
	}
	k.allocated, k.took = k.exe.Memory(0).Peak(), math.Inf(1)
	return nil
}

// step times one step on tensors that already lie right.
func (k *selfCase) step(args []array.Array) (err error) {
	placed := make([]*op.Tensor, len(args))
	for i, a := range args {
		if placed[i], err = k.exe.Place(i, k.world.Tensor(a.Clone())); err != nil {
			return err
		}
	}
	start := time.Now()
	if _, err := k.exe.RunSharded(placed); err != nil {
		return err
	}
	k.took = math.Min(k.took, time.Since(start).Seconds())
	return nil
}

// selfTau is Kendall's rank correlation of predictions and measurements.
func selfTau(cases []*selfCase) float64 {
	agree, pairs := 0, 0
	for i, a := range cases {
		for _, b := range cases[:i] {
			pairs++
			switch d := (a.predicted - b.predicted) * (a.took - b.took); {
			case d > 0:
				agree++
			case d < 0:
				agree--
			}
		}
	}
	return float64(agree) / float64(max(1, pairs))
}
