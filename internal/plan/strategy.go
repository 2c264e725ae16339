package plan

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
)

// Strategy is one way to spread a workload over devices. Ranks are laid out with tensor parallelism
// innermost, then context, data and pipeline parallelism; experts fold into data·context·tensor. Numbers that
// are 0 mean 1.
type Strategy struct {
	DP int `yaml:"dp" json:"dp"`
	TP int `yaml:"tp" json:"tp"`
	PP int `yaml:"pp" json:"pp"`
	CP int `yaml:"cp,omitempty" json:"cp,omitempty"`
	// EP is over how many devices the experts of a layer are spread, ETP over how many one expert is.
	EP  int `yaml:"ep,omitempty" json:"ep,omitempty"`
	ETP int `yaml:"etp,omitempty" json:"etp,omitempty"`
	// VPP is how many chunks of layers a pipeline rank has.
	VPP int `yaml:"vpp,omitempty" json:"vpp,omitempty"`
	// Schedule is a name that pipeline.Lookup knows; empty means 1f1b, or interleaved where VPP is more than 1.
	Schedule string `yaml:"schedule,omitempty" json:"schedule,omitempty"`
	// Micro is the sequences of one micro-batch on one replica.
	Micro int `yaml:"micro" json:"micro"`
	// Zero shards over data parallelism: 1 the optimizer's state, 2 gradients, too, 3 parameters, too. Shard is
	// over how many ranks; 0 is all.
	Zero  int `yaml:"zero,omitempty" json:"zero,omitempty"`
	Shard int `yaml:"shard,omitempty" json:"shard,omitempty"`
	// SP splits along the sequence, over the tensor-parallel group, what tensor parallelism leaves whole.
	SP bool `yaml:"sp,omitempty" json:"sp,omitempty"`
	// CPKind is how context parallelism exchanges: ring (the default), ulysses or gather.
	CPKind string `yaml:"cp_kind,omitempty" json:"cp_kind,omitempty"`
	// Recompute is what the backward pass computes again.
	Recompute Recompute `yaml:"recompute,omitempty" json:"recompute,omitzero"`
	// Offload is what lies in the host's memory.
	Offload Offload `yaml:"offload,omitempty" json:"offload,omitzero"`
	// Layers is how many layers each stage has, chunk by chunk in the order that a micro-batch passes them;
	// empty is as even as it goes.
	Layers []int `yaml:"layers,omitempty" json:"layers,omitempty"`
}

// Offload is the part, 0 to 1, of each kind of state that lies in the host's memory.
type Offload struct {
	Optimizer   float64 `yaml:"optimizer,omitempty" json:"optimizer,omitempty"`
	Activations float64 `yaml:"activations,omitempty" json:"activations,omitempty"`
}

// Recompute is which activations are computed again in the backward pass.
type Recompute struct {
	// Mode is none (or empty), selective (the attention core) or full. Runs of others may have Products, which
	// no plan asks for.
	Mode string
	// Layers, with mode full, is how many layers of each chunk; 0 is all.
	Layers int
}

// The modes of Recompute. Products is torchtitan's selective mode: every other product of each layer, and all
// that is no product.
const (
	None      = "none"
	Selective = "selective"
	Products  = "products"
	Full      = "full"
)

// MarshalText writes none, selective, full or full:3.
func (r Recompute) MarshalText() ([]byte, error) {
	switch {
	case r.Mode == "":
		return []byte(None), nil
	case r.Layers > 0:
		return []byte(r.Mode + ":" + strconv.Itoa(r.Layers)), nil
	}
	return []byte(r.Mode), nil
}

// UnmarshalText reads what MarshalText writes.
func (r *Recompute) UnmarshalText(text []byte) error {
	mode, count, has := strings.Cut(string(text), ":")
	*r = Recompute{Mode: mode}
	if mode != None && mode != Selective && mode != Full && mode != "" {
		return fmt.Errorf("recompute %q: want none, selective, full or full:LAYERS", text)
	}
	if mode == None {
		r.Mode = ""
	}
	if !has {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || mode != Full {
		return fmt.Errorf("recompute %q: want none, selective, full or full:LAYERS", text)
	}
	r.Layers = n
	return nil
}

// normal is the strategy with its zeros read and its schedule spelled as package pipeline does.
func (s Strategy) normal() Strategy {
	if s.Schedule != "" {
		if class, err := pipeline.Lookup(s.Schedule); err == nil {
			s.Schedule = class.Name
		}
	}
	for _, n := range []*int{&s.DP, &s.TP, &s.PP, &s.CP, &s.EP, &s.ETP, &s.VPP, &s.Micro} {
		if *n == 0 {
			*n = 1
		}
	}
	return s
}

// World is how many devices it takes.
func (s Strategy) World() int {
	s = s.normal()
	return s.DP * s.TP * s.PP * s.CP
}

// Micros is how many micro-batches a replica takes in a step of a batch; 0 where they do not come out even.
func (s Strategy) Micros(batch int) int {
	s = s.normal()
	if batch%(s.DP*s.Micro) != 0 {
		return 0
	}
	return batch / (s.DP * s.Micro)
}

// String is one line: dp=8 tp=4 pp=2 micro=1 zero=1 sp recompute=full.
func (s Strategy) String() string {
	n := s.normal()
	words := []string{fmt.Sprintf("dp=%d tp=%d pp=%d", n.DP, n.TP, n.PP)}
	for _, f := range []struct {
		key string
		n   int
		def int
	}{{"cp", n.CP, 1}, {"ep", n.EP, 1}, {"etp", n.ETP, 1}, {"vpp", n.VPP, 1}, {"micro", n.Micro, 0}, {"zero",
		n.Zero, 0}, {"shard", n.Shard, 0}} {
		if f.n != f.def {
			words = append(words, f.key+"="+strconv.Itoa(f.n))
		}
	}
	if n.Schedule != "" {
		words = append(words, "schedule="+n.Schedule)
	}
	if n.SP {
		words = append(words, "sp")
	}
	if n.CPKind != "" {
		words = append(words, "cp_kind="+n.CPKind)
	}
	if r, _ := n.Recompute.MarshalText(); n.Recompute.Mode != "" && n.Recompute.Mode != None {
		words = append(words, "recompute="+string(r))
	}
	for _, o := range []struct {
		key string
		x   float64
	}{{"optimizer", n.Offload.Optimizer}, {"activations", n.Offload.Activations}} {
		if o.x > 0 {
			words = append(words, "offload."+o.key+"="+strconv.FormatFloat(o.x, 'g', -1, 64))
		}
	}
	if len(n.Layers) > 0 {
		words = append(words, "layers="+strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Layers), " ", ","), "[]"))
	}
	return strings.Join(words, " ")
}

// ParseStrategy reads what String writes, in any order.
func ParseStrategy(line string) (Strategy, error) {
	var s Strategy
	ints := map[string]*int{"dp": &s.DP, "tp": &s.TP, "pp": &s.PP, "cp": &s.CP, "ep": &s.EP, "etp": &s.ETP,
		"vpp":   &s.VPP,
		"micro": &s.Micro, "zero": &s.Zero, "shard": &s.Shard}
	for _, w := range strings.Fields(strings.ReplaceAll(line, ";", " ")) {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "sp":
			s.SP = value == "" || value == "true"
			if value != "" && value != "true" && value != "false" {
				err = fmt.Errorf("want sp or sp=false")
			}
		case "schedule":
			s.Schedule = value
		case "cp_kind":
			s.CPKind = value
		case "recompute":
			err = s.Recompute.UnmarshalText([]byte(value))
		case "offload.optimizer":
			s.Offload.Optimizer, err = strconv.ParseFloat(value, 64)
		case "offload.activations":
			s.Offload.Activations, err = strconv.ParseFloat(value, 64)
		case "layers":
			s.Layers, err = layerList(value)
		default:
			n, ok := ints[key]
			if !ok {
				return Strategy{}, fmt.Errorf("strategy: %q: want dp, tp, pp, cp, ep, etp, vpp, micro, zero, shard, schedule, sp, cp_kind, recompute, offload or layers", w)
			}
			*n, err = strconv.Atoi(value)
		}
		if err != nil {
			return Strategy{}, fmt.Errorf("strategy: %q: %w", w, err)
		}
	}
	return s, nil
}

func layerList(s string) ([]int, error) {
	var out []int
	for _, w := range strings.Split(s, ",") {
		n, err := strconv.Atoi(w)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// Equal says whether two strategies are the same.
func (s Strategy) Equal(t Strategy) bool { return reflect.DeepEqual(s.normal(), t.normal()) }
