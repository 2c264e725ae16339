package galley

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
)

// Strategy is how a training step is spread over devices. The zero value is one device. Degrees multiply; all but EP, which
// folds into DP: the devices of DP/EP groups share experts.
type Strategy struct {
	// DP is data parallel: the batch is split. TP is tensor parallel: heads, inner widths and the vocabulary are.
	// PP is pipeline parallel: the layers are. CP is context parallel: the sequence is. EP is expert parallel. 0 means 1.
	DP, TP, PP, CP, EP int
	// Zero splits over the data axes: 1 the optimizer's memory, 2 the sums of gradients, too, 3 the parameters, too.
	Zero int
	// Schedule is the name of a pipeline schedule, or the text of one; empty is 1f1b, or interleaved where VPP is more than
	// 1. VPP is how many stages a device has in interleaved ones; 0 means what the schedule has.
	Schedule string
	VPP      int
	// Micro is how many micro-batches a step has: gradients are summed over them. 0 means PP, or what a schedule's text has.
	Micro int
	// Layers is how many layers each stage has; nil spreads them evenly.
	Layers []int
	// Context is how context parallel attention is computed: ring, the default, or ulysses.
	Context string
	// Sequence splits what lies between layers over the tensor axis, too.
	Sequence bool
	// Recompute is what backward passes compute again: none, selective, full, or full:N for the first N layers of each stage.
	Recompute string
	// AMP computes in bf16 or f16 with f32 weights in the optimizer; off, the default, in the parameters' own dtype.
	AMP string
	// Overlap lets devices compute while they exchange: collectives are waited for when their results are used, and weights that
	// ZeRO splits are gathered ahead of their turn. The numbers are the same.
	Overlap bool
	// Offload is what leaves the devices between updates: none, the default, or optimizer: its memory is kept by the host;
	// optimizer:DIR keeps it in files.
	Offload string
}

// ParseStrategy reads degrees, dp=2,tp=2,pp=2, into a strategy.
func ParseStrategy(text string) (Strategy, error) {
	var s Strategy
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		n, err := strconv.Atoi(value)
		at := s.degree(name)
		switch {
		case at == nil:
			return s, fmt.Errorf("mesh %q: no axis %q: want dp, tp, pp, cp or ep", text, name)
		case err != nil || n < 1:
			return s, fmt.Errorf("mesh %q: axis %s: got %q, want a number from 1 on", text, name, value)
		case seen[name]:
			return s, fmt.Errorf("mesh %q: axis %s comes twice", text, name)
		}
		*at, seen[name] = n, true
	}
	return s, nil
}

func (s *Strategy) degree(name string) *int {
	return map[string]*int{"dp": &s.DP, "tp": &s.TP, "pp": &s.PP, "cp": &s.CP, "ep": &s.EP}[name]
}

// String is the strategy in short: dp2·tp2·pp2 zero1 1f1b×4.
func (s Strategy) String() string {
	var degrees []string
	for _, name := range []string{"dp", "tp", "pp", "cp", "ep"} {
		if n := *s.degree(name); n > 1 {
			degrees = append(degrees, name+strconv.Itoa(n))
		}
	}
	words := []string{strings.Join(degrees, "·")}
	if degrees == nil {
		words[0] = "one device"
	}
	add := func(use bool, word string) {
		if use {
			words = append(words, word)
		}
	}
	add(s.Zero > 0, fmt.Sprintf("zero%d", s.Zero))
	add(s.PP > 1, s.scheduleName())
	add(s.VPP > 1, fmt.Sprintf("vpp%d", s.VPP))
	add(s.Micro > 1, fmt.Sprintf("×%d", s.Micro))
	add(s.CP > 1, s.Context)
	add(s.Sequence, "sp")
	add(s.Overlap, "overlap")
	add(s.Recompute != "" && s.Recompute != "none", "recompute "+s.Recompute)
	add(s.AMP != "" && s.AMP != "off", s.AMP)
	add(s.Offload != "" && s.Offload != "none", "offload "+s.Offload)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

func (s Strategy) scheduleName() string {
	if s.ownSchedule() {
		return "own schedule"
	}
	return s.Schedule
}

// ownSchedule reports whether Schedule is a schedule and not the name of one.
func (s Strategy) ownSchedule() bool { return strings.ContainsAny(s.Schedule, "\n:") }

// withDefaults fills in what may be left out and checks the rest.
func (s Strategy) withDefaults() (Strategy, error) {
	for _, name := range []string{"dp", "tp", "pp", "cp", "ep"} {
		at := s.degree(name)
		if *at < 0 {
			return s, fmt.Errorf("strategy: %s is %d: want 1 or more", name, *at)
		}
		*at = max(*at, 1)
	}
	if s.overflow() {
		return s, fmt.Errorf("strategy: %s: more than the %d devices that a process can have: want a smaller degree", s, maxDevices)
	}
	if s.DP == 1 && s.EP > 1 {
		s.DP = s.EP // experts fold into the data axis, which nothing was said of
	}
	if s.DP%s.EP != 0 {
		return s, fmt.Errorf("strategy: ep=%d does not divide dp=%d: experts fold into the data axis: want ep=%d or dp=%d", s.EP, s.DP, gcd(s.EP, s.DP), s.EP*((s.DP+s.EP-1)/s.EP))
	}
	if s.Zero < 0 || s.Zero > 3 {
		return s, fmt.Errorf("strategy: zero is %d: want 0 to 3: %d is nearest", s.Zero, min(max(s.Zero, 0), 3))
	}
	if s.Micro == 0 {
		s.Micro = s.PP
		if p, err := pipeline.Parse(s.Schedule); s.ownSchedule() && err == nil {
			s.Micro = p.Micros
		}
	}
	if s.Micro < 0 || s.VPP < 0 {
		return s, fmt.Errorf("strategy: micro is %d and vpp %d: want 1 or more", s.Micro, s.VPP)
	}
	for _, w := range []struct {
		name  string
		at    *string
		words []string
	}{
		{"context", &s.Context, []string{"ring", "ulysses"}},
		{"amp", &s.AMP, []string{"off", "bf16", "f16"}},
		{"recompute", &s.Recompute, []string{"none", "selective", "full"}},
		{"offload", &s.Offload, []string{"none", "optimizer"}},
	} {
		if *w.at == "" {
			*w.at = w.words[0]
		}
		word, _, _ := strings.Cut(*w.at, ":")
		if !slices.Contains(w.words, word) {
			return s, fmt.Errorf("strategy: %s is %q: want %s", w.name, *w.at, strings.Join(w.words, ", "))
		}
	}
	return s, s.spellSchedule()
}

// spellSchedule makes the schedule's name that of its class, where it is not a schedule's text.
func (s *Strategy) spellSchedule() error {
	if s.ownSchedule() {
		return nil
	}
	class, err := pipeline.Choose(s.Schedule, s.VPP)
	if err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	s.Schedule = class.Name
	return nil
}

// maxDevices is how many devices a process can have: each is a goroutine with memory of its own.
const maxDevices = 4096

// overflow reports whether there are more devices than can be.
func (s Strategy) overflow() bool {
	n := 1
	for _, degree := range []int{s.TP, s.PP, s.CP, max(s.DP, s.EP)} {
		if degree > maxDevices {
			return true
		}
		n *= degree
	}
	return n > maxDevices
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Devices is how many devices the strategy needs.
func (s Strategy) Devices() int {
	n := max(s.TP, 1) * max(s.PP, 1) * max(s.CP, 1)
	return n * max(s.DP, s.EP, 1)
}

// axes of the mesh of one rank of a pipeline, slowest first: neighbours share tensors, then sequences, then batches.
const (
	contextAxis = "cp"
	expertAxis  = "ep"
)

// meshes is the devices of each rank of the pipeline.
func (s Strategy) meshes() ([]*mesh.Mesh, error) {
	var axes []mesh.Axis
	for _, a := range []mesh.Axis{{Name: dataAxis, Size: s.DP / s.EP}, {Name: expertAxis, Size: s.EP}, {Name: contextAxis, Size: s.CP}, {Name: tensorAxis, Size: s.TP}} {
		if a.Size > 1 {
			axes = append(axes, a)
		}
	}
	if axes == nil {
		axes = []mesh.Axis{{Name: dataAxis, Size: 1}}
	}
	n := s.DP * s.CP * s.TP
	var list []*mesh.Mesh
	for rank := range s.PP {
		devices := make([]int, n)
		for i := range devices {
			devices[i] = rank*n + i
		}
		m, err := mesh.New(axes, devices...)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// recompute is what each layer computes again, by its number within its stage.
func (s Strategy) recompute() (func(layer int) stage.Recompute, error) {
	word, count, limited := strings.Cut(s.Recompute, ":")
	limit := 0
	if limited {
		var err error
		if limit, err = strconv.Atoi(count); err != nil || limit < 0 || word == "none" {
			return nil, fmt.Errorf("strategy: recompute is %q: want none, selective, full, or selective:N or full:N for a number N of layers", s.Recompute)
		}
	}
	policy := map[string]stage.Recompute{"none": stage.RecomputeNone, "selective": stage.RecomputeSelective, "full": stage.RecomputeFull}[word]
	return func(layer int) stage.Recompute {
		if limited && layer >= limit {
			return stage.RecomputeNone
		}
		return policy
	}, nil
}

// idle is an error where something is asked for that needs an axis which is not there: it would change nothing.
func (s Strategy) idle() error {
	switch {
	case s.Zero > 0 && s.DP*s.CP == 1:
		return fmt.Errorf("strategy: zero=%d splits over the devices of dp, ep and cp: there is one: want dp=2 or more, or zero=0", s.Zero)
	case s.Sequence && s.TP == 1:
		return errors.New("strategy: sequence parallel splits over the devices of tp: there is one: want tp=2 or more, or none of it")
	case s.VPP > 1 && s.PP == 1:
		return fmt.Errorf("strategy: vpp=%d is stages of each device of pp: there is one: want pp=2 or more, or vpp=1", s.VPP)
	}
	return nil
}

// Check reports what is wrong with the strategy by itself, before a model is known: degrees that do not divide, a schedule
// that deadlocks.
func (s Strategy) Check() error {
	s, err := s.withDefaults()
	if err != nil {
		return err
	}
	if err := s.idle(); err != nil {
		return err
	}
	if _, err := s.recompute(); err != nil {
		return err
	}
	p, err := s.pipeline()
	if err != nil {
		return err
	}
	_, err = pipeline.Check(p)
	return err
}
