package planfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// Version is that of the files that this package writes. Files of version 1, in which micro was the sequences
// of a micro-batch, are read, too.
const Version = 2

// File is a plan with what it is for and what is expected of it.
type File struct {
	Version int `yaml:"galley_plan"`
	// Key is a hash of Program, Workload and Cluster.
	Key string `yaml:"key"`
	// Program is a hash of the program that was priced, where there is one; else the model's shape is all there
	// is.
	Program  string        `yaml:"program,omitempty"`
	Workload plan.Workload `yaml:"workload"`
	// Cluster is the hardware, as cluster.Parse reads it.
	Cluster  string            `yaml:"cluster"`
	Strategy strategy.Strategy `yaml:"strategy"`
	// Stages is the layers of each stage, chunk by chunk in the order that a micro-batch passes them.
	Stages []int `yaml:"stages,flow"`
	// Layout is the hardware in the order of ranks and Mapping the device of each rank, where they are not the
	// cluster's own.
	Layout    string    `yaml:"layout,omitempty"`
	Mapping   []int     `yaml:"mapping,flow,omitempty"`
	Predicted Predicted `yaml:"predicted"`
}

// Predicted is what a step should take: seconds, and bytes of the device that needs the most.
type Predicted struct {
	Step            float64 `yaml:"step_seconds"`
	Low             float64 `yaml:"low_seconds"`
	High            float64 `yaml:"high_seconds"`
	TokensPerSecond float64 `yaml:"tokens_per_second"`
	MFU             float64 `yaml:"mfu"`
	Level           int     `yaml:"calibration_level"`
	Parts           Parts   `yaml:"parts_seconds"`
	Memory          Memory  `yaml:"memory_bytes"`
	// Devices is what each rank takes where Galley trains the model, to the byte: what its tapes say, where they
	// were built.
	Devices []int64 `yaml:"devices_bytes,flow,omitempty"`
}

// Parts is plan.Parts as a file shows it.
type Parts struct {
	Compute   float64 `yaml:"compute,omitempty"`
	Recompute float64 `yaml:"recompute,omitempty"`
	TP        float64 `yaml:"tensor,omitempty"`
	CP        float64 `yaml:"context,omitempty"`
	EP        float64 `yaml:"experts,omitempty"`
	PP        float64 `yaml:"pipeline,omitempty"`
	DP        float64 `yaml:"data,omitempty"`
	Bubble    float64 `yaml:"bubble,omitempty"`
	Optimizer float64 `yaml:"optimizer,omitempty"`
	Offload   float64 `yaml:"offload,omitempty"`
	Fixed     float64 `yaml:"fixed,omitempty"`
}

// Memory is plan.Memory in whole bytes.
type Memory struct {
	Weights     int64 `yaml:"weights,omitempty"`
	Gradients   int64 `yaml:"gradients,omitempty"`
	Optimizer   int64 `yaml:"optimizer,omitempty"`
	Activations int64 `yaml:"activations,omitempty"`
	Logits      int64 `yaml:"logits,omitempty"`
	Buffers     int64 `yaml:"buffers,omitempty"`
	Context     int64 `yaml:"context,omitempty"`
	Slack       int64 `yaml:"slack,omitempty"`
}

// Estimate returns what was predicted, as the cost model says it.
func (p *Predicted) Estimate() plan.Estimate {
	m := &p.Memory
	return plan.Estimate{
		Step: p.Step, Low: p.Low, High: p.High, MFU: p.MFU, Level: p.Level, Parts: plan.Parts(p.Parts),
		Memory: plan.Memory{
			Weights: float64(m.Weights), Gradients: float64(m.Gradients), Optimizer: float64(m.Optimizer),
			Activations: float64(m.Activations),
			Logits:      float64(m.Logits), Buffers: float64(m.Buffers), Context: float64(m.Context),
			Slack: float64(m.Slack),
		},
	}
}

// predicted returns an estimate in numbers that people can read.
func predicted(w plan.Workload, e plan.Estimate) Predicted {
	p, m := e.Parts, &e.Memory
	for _, x := range []*float64{&p.Compute, &p.Recompute, &p.TP, &p.CP, &p.EP, &p.PP, &p.DP, &p.Bubble,
		&p.Optimizer, &p.Offload, &p.Fixed} {
		*x = short(*x)
	}
	return Predicted{
		Step: short(e.Step), Low: short(e.Low), High: short(e.High), TokensPerSecond: short(w.Tokens() / e.Step),
		MFU: short(e.MFU), Level: e.Level, Parts: Parts(p),
		Memory: Memory{
			Weights: int64(m.Weights), Gradients: int64(m.Gradients), Optimizer: int64(m.Optimizer),
			Activations: int64(m.Activations),
			Logits:      int64(m.Logits), Buffers: int64(m.Buffers), Context: int64(m.Context), Slack: int64(m.Slack),
		},
	}
}

// short keeps six digits.
func short(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return y
}

// New returns the file of a strategy and its price.
func New(w plan.Workload, c *cluster.Cluster, s strategy.Strategy, e plan.Estimate) *File {
	f := &File{
		Version: Version, Workload: w, Cluster: c.String(), Strategy: s, Stages: Stages(w.Model.Layers, s),
		Predicted: predicted(w, e),
	}
	f.Key = KeyOf(f.Program, w, c)
	return f
}

// Stages returns the layers of each chunk of a strategy: as it says, or as even as it goes, the longer ones
// first.
func Stages(layers int, s strategy.Strategy) []int {
	if len(s.Layers) > 0 {
		return slices.Clone(s.Layers)
	}
	s = s.Filled()
	n := max(1, s.PP*s.VPP)
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = layers / n
		if i < layers%n {
			sizes[i]++
		}
	}
	return sizes
}

// KeyOf returns a hash of what a plan depends on.
func KeyOf(program string, w plan.Workload, c *cluster.Cluster) string {
	text, err := json.Marshal(w)
	if err != nil { // numbers and words only: it cannot be
		panic(fmt.Sprintf("planfile: %v", err))
	}
	sum := sha256.Sum256(slices.Concat([]byte(program+"\n"), text, []byte("\n"), c.YAML()))
	return hex.EncodeToString(sum[:8])
}

// Hardware returns the cluster that the plan is for.
func (f *File) Hardware() (*cluster.Cluster, error) { return cluster.Parse(f.Cluster) }

// Ordered returns the cluster in the order of the plan's ranks: what its strategy is priced on.
func (f *File) Ordered() (*cluster.Cluster, error) {
	if f.Layout != "" {
		return cluster.Parse(f.Layout)
	}
	return f.Hardware()
}

// For reports why the plan is not for a workload and a cluster, with what to do about it.
func (f *File) For(w plan.Workload, c *cluster.Cluster) error {
	if f.Key == KeyOf(f.Program, w, c) {
		return nil
	}
	return fmt.Errorf("plan %s is not for this run: %s: make a new one with galley plan", f.Key,
		f.difference(w, c))
}

// ForProgram reports the same for a run of a program, by its hash.
func (f *File) ForProgram(program string) error {
	if f.Program == "" || f.Program == program {
		return nil
	}
	return fmt.Errorf("plan %s is not for this run: it was made for program %s, this is %s: make a new one "+
		"with galley plan", f.Key, f.Program, program)
}

// difference names the first thing that is not the same.
func (f *File) difference(w plan.Workload, c *cluster.Cluster) string {
	a, b := &f.Workload, &w
	for _, x := range []struct {
		what      string
		got, want any
	}{
		{"model", a.Model.Name, b.Model.Name}, {"batch", a.Batch, b.Batch}, {"sequence length", a.Seq, b.Seq},
		{"precision", a.Precision, b.Precision}, {"model's shape", a.Model, b.Model}, {"software", a.Software,
			b.Software},
	} {
		if x.got != x.want {
			return fmt.Sprintf("%s: the plan has %v, this is %v", x.what, x.got, x.want)
		}
	}
	return fmt.Sprintf("cluster: the plan has %s, this is %s", f.Cluster, c)
}
