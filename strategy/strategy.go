package strategy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Strategy says how a training step is distributed over devices. Trainers run it, planners price it, and plan
// files, exports and checks store it. The zero value is one device. The degrees multiply to the number of
// devices, except EP, which folds into DP: each of DP/EP groups of devices shares one set of experts.
// Neighbouring devices share tensors, then sequences, then batches; pipeline ranks are farthest apart.
type Strategy struct {
	// DP is data parallel: it splits the batch. TP is tensor parallel: it splits heads, inner widths and the
	// vocabulary. PP is pipeline parallel: it splits the layers. CP is context parallel: it splits the
	// sequence. EP is expert parallel, over devices of DP, or of DP and CP if it does not divide DP. 0 means
	// 1; if only EP is set, DP is EP.
	DP int `yaml:"dp" json:"dp"`
	TP int `yaml:"tp" json:"tp"`
	PP int `yaml:"pp" json:"pp"`
	CP int `yaml:"cp,omitempty" json:"cp,omitempty"`
	EP int `yaml:"ep,omitempty" json:"ep,omitempty"`
	// ETP is the number of devices of the tensor axis that one expert is split over: TP, or 1 if each device
	// has experts of its own; 0 means 1.
	ETP int `yaml:"etp,omitempty" json:"etp,omitempty"`
	// Branches, if 2, runs independent parts of a step on two devices, such as attention and the MLP of a
	// parallel block; they are found in the program. 0 means 1. It cannot be combined with other degrees.
	Branches int `yaml:"branches,omitempty" json:"branches,omitempty"`
	// VPP is the number of stages per device (virtual pipeline); 0 means the schedule's default.
	VPP int `yaml:"vpp,omitempty" json:"vpp,omitempty"`
	// Schedule is the name of a pipeline schedule, or its text; empty means 1f1b, or interleaved if VPP is
	// more than 1.
	Schedule string `yaml:"schedule,omitempty" json:"schedule,omitempty"`
	// Micro is the number of micro-batches per step, over which gradients are summed. 0 means PP, or that of
	// a schedule's text, or the batch divided by MicroBatch.
	Micro int `yaml:"micro,omitempty" json:"micro,omitempty"`
	// MicroBatch is the number of sequences per micro-batch on each of the DP replicas, if planned by size; 0
	// means it follows from Micro. Sized converts one to the other.
	MicroBatch int `yaml:"micro_batch,omitempty" json:"micro_batch,omitempty"`
	// Zero is the ZeRO stage over the data axes: 1 shards the optimizer state, 2 also the gradients, 3 also
	// the parameters. Shard is the size of the groups of neighbouring devices that they are sharded over,
	// with replicas between groups; 0 means all devices.
	Zero  int `yaml:"zero,omitempty" json:"zero,omitempty"`
	Shard int `yaml:"shard,omitempty" json:"shard,omitempty"`
	// Sequence also splits the activations between layers over the tensor axis (sequence parallelism).
	Sequence bool `yaml:"sp,omitempty" json:"sp,omitempty"`
	// Context is the algorithm of context-parallel attention: ring (the default), ulysses, or gather, in
	// which every device gathers all keys.
	Context string `yaml:"cp_kind,omitempty" json:"cp_kind,omitempty"`
	// Recompute selects what the backward pass recomputes: none, selective, full, or full:N for the first N
	// layers of each stage.
	Recompute Recompute `yaml:"recompute,omitempty" json:"recompute,omitempty"`
	// Offload keeps part of the state outside of device memory and brings it in for use.
	Offload Offload `yaml:"offload,omitempty" json:"offload,omitzero"`
	// Layers is the number of layers per stage, in the order of execution; nil spreads them evenly.
	Layers []int `yaml:"layers,omitempty" json:"layers,omitempty"`
	// AMP is bf16 or f16 for mixed precision with f32 master weights; off, the default, computes in the
	// parameters' own dtype.
	AMP string `yaml:"amp,omitempty" json:"amp,omitempty"`
	// Overlap hides communication behind computation: collectives are waited for when their results are used,
	// and weights that ZeRO shards are gathered early. Auto does it for the collectives where it pays. The
	// results are the same.
	Overlap Choice `yaml:"overlap,omitempty" json:"overlap,omitempty"`
	// Bucket is the maximum number of bytes up to which collectives of one kind and group are merged; 1
	// merges none, 0 merges as long as the saved latency pays for the copies. Host is the number of
	// neighbouring devices per host: collectives go within hosts first and then between them; 0 means one
	// host.
	Bucket int `yaml:"bucket,omitempty" json:"bucket,omitempty"`
	Host   int `yaml:"host,omitempty" json:"host,omitempty"`
	// FusedPasses lists the program rewrites to run, in order; names with a leading - run all but those;
	// "none" runs none; nil runs all. Passes lists them, RegisterPass adds one.
	FusedPasses []string `yaml:"fused_passes,omitempty" json:"fused_passes,omitempty"`
	// Auto is the number of devices for which a strategy is searched: all fields that are zero are chosen by
	// the search. ToStatic and Engine search; a Trainer takes the result.
	Auto int `yaml:"auto,omitempty" json:"auto,omitempty"`
}

// String returns a short form for people: dp2·tp2·pp2 zero1 1f1b ×4. Line returns the form that Parse reads.
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

// OwnSchedule reports whether Schedule is the text of a schedule rather than a name.
func (s Strategy) OwnSchedule() bool { return strings.ContainsAny(s.Schedule, "\n:") }

// Equal reports whether two strategies are the same once defaults are filled in.
func (s Strategy) Equal(t Strategy) bool { return reflect.DeepEqual(s.plain(), t.plain()) }

// plain returns the strategy with equivalent spellings of the defaults unified.
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
