package strategy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Strategy is how a training step is spread over devices: what a trainer runs, what a planner prices and
// what plan files, exports and checks speak of. The zero value is one device. Degrees multiply; all but EP,
// which folds into DP: the devices of DP/EP groups share experts. Neighbouring devices share tensors, then
// sequences, then batches; ranks of a pipeline are farthest apart.
type Strategy struct {
	// DP is data parallel: the batch is split. TP is tensor parallel: heads, inner widths and the vocabulary
	// are. PP is pipeline parallel: the layers are. CP is context parallel: the sequence is. EP is expert
	// parallel, over devices of DP, or of DP and CP where it does not divide DP. 0 means 1; where only EP is
	// said, DP is EP.
	DP int `yaml:"dp" json:"dp"`
	TP int `yaml:"tp" json:"tp"`
	PP int `yaml:"pp" json:"pp"`
	CP int `yaml:"cp,omitempty" json:"cp,omitempty"`
	EP int `yaml:"ep,omitempty" json:"ep,omitempty"`
	// ETP is over how many devices of the tensor axis one expert is split: TP, or 1, where each has experts of
	// its own; 0 means 1.
	ETP int `yaml:"etp,omitempty" json:"etp,omitempty"`
	// Branches is 2 where parts of a step that do not depend on each other run on two devices, such as attention
	// and the MLP of a parallel block; they are found in the program. 0 means 1: there are none. It goes with no
	// other degree.
	Branches int `yaml:"branches,omitempty" json:"branches,omitempty"`
	// VPP is how many stages a device has; 0 means what the schedule has.
	VPP int `yaml:"vpp,omitempty" json:"vpp,omitempty"`
	// Schedule is the name of a pipeline schedule, or the text of one; empty is 1f1b, or interleaved where VPP
	// is more than 1.
	Schedule string `yaml:"schedule,omitempty" json:"schedule,omitempty"`
	// Micro is how many micro-batches a step has: gradients are summed over them. 0 means PP, or what a
	// schedule's text has, or what MicroBatch makes of a batch.
	Micro int `yaml:"micro,omitempty" json:"micro,omitempty"`
	// MicroBatch is how many sequences a micro-batch has on each of the DP replicas, where it is planned by
	// that; 0 is what Micro makes of a batch. Sized gives one from the other.
	MicroBatch int `yaml:"micro_batch,omitempty" json:"micro_batch,omitempty"`
	// Zero splits over the data axes: 1 the optimizer's memory, 2 the sums of gradients, too, 3 the parameters,
	// too. Shard is over how many devices, neighbours in groups that hold copies of each other; 0 is all.
	Zero  int `yaml:"zero,omitempty" json:"zero,omitempty"`
	Shard int `yaml:"shard,omitempty" json:"shard,omitempty"`
	// Sequence splits what is between layers over the tensor axis, too.
	Sequence bool `yaml:"sp,omitempty" json:"sp,omitempty"`
	// Context is how context parallel attention is computed: ring, the default, ulysses, or gather, by which
	// every device has all keys.
	Context string `yaml:"cp_kind,omitempty" json:"cp_kind,omitempty"`
	// Recompute is what backward passes compute again: none, selective, full, or full:N for the first N layers
	// of each stage.
	Recompute Recompute `yaml:"recompute,omitempty" json:"recompute,omitempty"`
	// Offload is what is outside of the devices' memory and is brought in when it is used.
	Offload Offload `yaml:"offload,omitempty" json:"offload,omitzero"`
	// Layers is how many layers each stage has, in the order that a micro-batch passes them; nil spreads them
	// evenly.
	Layers []int `yaml:"layers,omitempty" json:"layers,omitempty"`
	// AMP computes in bf16 or f16 with f32 weights in the optimizer; off, the default, in the parameters' own
	// dtype.
	AMP string `yaml:"amp,omitempty" json:"amp,omitempty"`
	// Overlap lets devices compute while they exchange: collectives are waited for when their results are used,
	// and weights that ZeRO splits are gathered ahead of their turn. Auto is those collectives for which it
	// pays. The numbers are the same.
	Overlap Choice `yaml:"overlap,omitempty" json:"overlap,omitempty"`
	// Bucket is up to how many bytes collectives of one kind and group travel together, 1 none of them; 0 is as
	// many as the latency that is saved pays for. Host is how many neighbouring devices share a host:
	// collectives go within hosts, and then between them; 0 is all.
	Bucket int `yaml:"bucket,omitempty" json:"bucket,omitempty"`
	Host   int `yaml:"host,omitempty" json:"host,omitempty"`
	// FusedPasses names the rewrites of programs to run, in order, join and gemm_epilogue among them; with a -
	// before each, all but those; "none" is none. nil is what there is: RegisterPass adds to it, Passes lists
	// it.
	FusedPasses []string `yaml:"fused_passes,omitempty" json:"fused_passes,omitempty"`
	// Auto is over how many devices a strategy is to be searched for the program at hand: whatever is zero here
	// is up to the search. ToStatic and Engine search; a trainer takes what was found.
	Auto int `yaml:"auto,omitempty" json:"auto,omitempty"`
}

// String returns the strategy in short, for people: dp2·tp2·pp2 zero1 1f1b ×4. Line is what Parse reads.
func (s Strategy) String() string {
	var degrees []string
	for _, name := range axes {
		if n := *s.number(name); n > 1 {
			degrees = append(degrees, name+strconv.Itoa(n))
		}
	}
	if s.Branches > 1 {
		degrees = append(degrees, "branches"+strconv.Itoa(s.Branches))
	}
	words := []string{strings.Join(degrees, "·")}
	if degrees == nil && s.Auto == 0 {
		words[0] = "one device"
	}
	add := func(use bool, word string) {
		if use {
			words = append(words, word)
		}
	}
	add(s.Auto > 0, fmt.Sprintf("auto%d", s.Auto))
	add(s.ETP > 1, fmt.Sprintf("etp%d", s.ETP))
	add(s.Zero > 0, fmt.Sprintf("zero%d", s.Zero))
	add(s.Zero > 0 && s.Shard > 0, fmt.Sprintf("shard%d", s.Shard))
	add(s.PP > 1, s.scheduleName())
	add(s.VPP > 1, fmt.Sprintf("vpp%d", s.VPP))
	add(s.Micro > 1, fmt.Sprintf("×%d", s.Micro))
	add(s.Micro == 0 && s.MicroBatch > 0, fmt.Sprintf("micro-batches of %d", s.MicroBatch))
	add(s.CP > 1, s.Context)
	add(s.Sequence, "sp")
	add(s.Overlap == On, "overlap")
	add(s.Overlap == Off, "no overlap")
	add(s.Bucket > 0, fmt.Sprintf("bucket%d", s.Bucket))
	add(s.Host > 0, fmt.Sprintf("host%d", s.Host))
	add(s.Recompute.Mode() != None, "recompute "+string(s.Recompute))
	add(s.AMP != "" && s.AMP != "off", s.AMP)
	add(s.Offload != Offload{}, "offload "+s.Offload.String())
	add(len(s.FusedPasses) > 0, "passes "+strings.Join(s.FusedPasses, "+"))
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func (s Strategy) scheduleName() string {
	if s.OwnSchedule() {
		return "own schedule"
	}
	return s.Schedule
}

// OwnSchedule reports whether Schedule is the text of a schedule and not the name of one.
func (s Strategy) OwnSchedule() bool { return strings.ContainsAny(s.Schedule, "\n:") }

// Equal reports whether two strategies are the same, however they leave out what goes without saying.
func (s Strategy) Equal(t Strategy) bool { return reflect.DeepEqual(s.plain(), t.plain()) }

// plain returns the strategy with every way to say nothing said alike.
func (s Strategy) plain() Strategy {
	s = s.Filled()
	if s.Recompute.Mode() == None {
		s.Recompute = None
	}
	if s.Context == "" {
		s.Context = "ring"
	}
	if s.AMP == "off" {
		s.AMP = ""
	}
	if len(s.Layers) == 0 {
		s.Layers = nil
	}
	if len(s.FusedPasses) == 0 {
		s.FusedPasses = nil
	}
	return s
}
