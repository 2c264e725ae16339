package strategy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/pipeline"
)

// WithDefaults fills in defaults and checks the strategy for a run. Strategies that can only be planned are
// refused.
func (s Strategy) WithDefaults() (Strategy, error) {
	if s.Auto != 0 {
		return s, fmt.Errorf(
			"strategy: auto=%d has to be searched first: ToStatic and Engine do that for a model, and Plan "+
				"does it without running",
			s.Auto,
		)
	}
	for _, name := range axes {
		if n := *s.number(name); n < 0 {
			return s, fmt.Errorf("strategy: %s is %d: want 1 or more", name, n)
		}
	}
	if s.overflow() {
		return s, fmt.Errorf(
			"strategy: %s: more than the %d devices that a process can have: want a smaller degree",
			s,
			maxDevices,
		)
	}
	s.DP, s.TP, s.PP, s.CP, s.EP = s.replicas(), max(s.TP, 1), max(s.PP, 1), max(s.CP, 1), max(s.EP, 1)
	if err := s.Unrunnable(); err != nil {
		return s, err
	}
	if err := s.checkBranches(); err != nil {
		return s, err
	}
	if s.MicroBatch != 0 {
		return s, fmt.Errorf(
			"strategy %v: a trainer needs the number of micro-batches, Micro, not MicroBatch: ForBatch returns it",
			s,
		)
	}
	if s.Zero < 0 || s.Zero > 3 {
		return s, fmt.Errorf("strategy: zero is %d: want 0 to 3: %d is nearest", s.Zero, min(max(s.Zero, 0), 3))
	}
	if s.Micro == 0 {
		s.Micro = s.usualMicros()
	}
	if s.Bucket < 0 || s.Host < 0 {
		return s, fmt.Errorf("strategy: bucket is %d and host %d: want 0 or more", s.Bucket, s.Host)
	}
	if s.Micro < 0 || s.VPP < 0 {
		return s, fmt.Errorf("strategy: micro is %d and vpp %d: want 1 or more", s.Micro, s.VPP)
	}
	if err := s.checkNames(); err != nil {
		return s, err
	}
	if _, err := pass.Select(s.FusedPasses); err != nil {
		return s, fmt.Errorf("strategy: fused_passes: %w", err)
	}
	err := s.spellSchedule()
	return s, err
}

// checkNames fills in and checks the fields that are words.
func (s *Strategy) checkNames() error {
	for _, w := range []struct {
		name  string
		at    *string
		words []string
	}{{"context", &s.Context, []string{"ring", "ulysses", "gather"}},
		{"amp", &s.AMP, []string{"off", "bf16", "f16"}}} {
		if *w.at == "" {
			*w.at = w.words[0]
		}
		if !slices.Contains(w.words, *w.at) {
			return fmt.Errorf("strategy: %s is %q: want %s", w.name, *w.at, strings.Join(w.words, ", "))
		}
	}
	if s.Recompute == "" {
		s.Recompute = None
	}
	if err := s.Recompute.Check(); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	if err := s.Offload.check(); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// Unrunnable returns why no trainer can run a strategy that can be planned, or nil if one can.
func (s Strategy) Unrunnable() error {
	switch dp := s.replicas(); {
	case s.Shard < 0:
		return fmt.Errorf("strategy: shard is %d: want 0 or more", s.Shard)
	case s.Shard > 0 && s.Zero == 0:
		return fmt.Errorf("strategy %v: shard=%d is the number of devices that zero shards over: want zero=1 to "+
			"3, or no shard",
			s, s.Shard)
	case s.Zero > 0 && dp*max(s.CP, 1) > 1 && !s.groups(dp): // else meshes of the program may have them
		return s.Ungrouped(dp * max(s.CP, 1))
	case s.ETP > 1 && s.ETP != s.TP:
		return fmt.Errorf("strategy %v: etp=%d: an expert is split over tp or not at all: want etp=1, or tp=%[2]d",
			s,
			s.ETP)
	case s.EP > 1 && !s.foldable():
		return fmt.Errorf(
			"strategy: ep=%d does not divide dp=%d: experts fold into the data axis: want ep=%d or dp=%d",
			s.EP,
			dp,
			gcd(s.EP, dp),
			s.EP*((dp+s.EP-1)/s.EP),
		)
	}
	return nil
}

// Ungrouped returns the error of groups of Shard devices that do not divide those over which ZeRO splits.
func (s Strategy) Ungrouped(devices int) error {
	return fmt.Errorf("strategy %v: groups of shard=%d devices do not divide the %d of dp and cp, cp "+
		"innermost: "+
		"want a divisor, or shard=0 for all", s, s.Shard, devices)
}

// checkBranches refuses settings that cannot be combined with Branches, which runs the whole step on two
// devices in its own way.
func (s Strategy) checkBranches() error {
	if s.Branches < 0 || s.Branches > 2 {
		return fmt.Errorf("strategy: branches is %d: want 2, for two devices, or 0", s.Branches)
	}
	if s.Branches < 2 {
		return nil
	}
	for _, x := range []struct {
		name string
		is   bool
	}{
		{fmt.Sprintf("dp=%d", s.DP), s.DP > 1}, {fmt.Sprintf("tp=%d", s.TP), s.TP > 1},
		{fmt.Sprintf("pp=%d", s.PP), s.PP > 1}, {fmt.Sprintf("cp=%d", s.CP), s.CP > 1},
		{fmt.Sprintf("ep=%d", s.EP), s.EP > 1}, {fmt.Sprintf("zero=%d", s.Zero), s.Zero > 0},
		{fmt.Sprintf("micro=%d", s.Micro), s.Micro > 1}, {"amp=" + s.AMP, s.AMP != "" && s.AMP != "off"},
		{"recompute=" + string(s.Recompute), s.Recompute.Mode() != None}, {"offload", s.Offload != Offload{}},
		{"layers", len(s.Layers) > 0}, {fmt.Sprintf("host=%d", s.Host), s.Host > 0},
		{fmt.Sprintf("bucket=%d", s.Bucket), s.Bucket > 0}, {"overlap=" + string(s.Overlap), s.Overlap != Auto},
	} {
		if x.is {
			return fmt.Errorf("strategy: branches=%d with %s: branches of a step run on two devices and go with "+
				"nothing else: want one of both", s.Branches, x.name)
		}
	}
	return nil
}

// foldable reports whether expert parallelism folds into the data axis, or into the data and context axes.
func (s Strategy) foldable() bool {
	ep, context := s.Experts()
	return context || ep == s.EP
}

// groups reports whether the devices of the data axes, innermost first, form groups of size Shard.
func (s Strategy) groups(dp int) bool {
	rest := s.Shard
	ep, _ := s.Experts()
	for _, n := range []int{max(s.CP, 1), ep, dp / ep} {
		if rest == 0 || rest < n && n%rest == 0 {
			return rest >= 0
		}
		if rest%max(n, 1) != 0 {
			return false
		}
		rest /= n
	}
	return rest == 1
}

// replicas returns the data-parallel degree, which defaults to EP.
func (s Strategy) replicas() int {
	if s.DP != 0 {
		return s.DP
	}
	return max(s.EP, 1)
}

// RankOf returns the pipeline rank that holds a stage.
func (s Strategy) RankOf(stage int) int {
	s = s.Filled()
	return s.Class().Rank(stage, s.PP)
}

// Filled returns the strategy with every degree set and the schedule in its canonical spelling. Nothing is
// checked.
func (s Strategy) Filled() Strategy {
	s.DP = s.replicas()
	for _, at := range []*int{&s.TP, &s.PP, &s.CP, &s.EP, &s.ETP, &s.Branches} {
		if *at == 0 {
			*at = 1
		}
	}
	class, err := pipeline.Choose(s.Schedule, s.VPP)
	switch {
	case s.PP == 1 && s.VPP <= 1 && !s.OwnSchedule():
		s.Schedule, s.VPP = "", 1 // one rank needs no schedule
	case err != nil: // a text, or a name that checks refuse
		s.VPP = max(s.VPP, 1)
	default:
		if s.Schedule != "" {
			s.Schedule = class.Name
		}
		if s.VPP == 0 {
			s.VPP = class.Each()
		}
	}
	return s
}

// Class returns the class of the strategy's schedule; for an unknown name, which Check refuses, the default
// one.
func (s *Strategy) Class() *pipeline.Class {
	c, err := pipeline.Choose(s.Schedule, s.VPP)
	if err != nil {
		return pipeline.Default(s.VPP)
	}
	return c
}

// spellSchedule replaces the schedule's name by the canonical spelling, unless it is a schedule's text.
func (s *Strategy) spellSchedule() error {
	if s.OwnSchedule() {
		return nil
	}
	class, err := pipeline.Choose(s.Schedule, s.VPP)
	if err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	s.Schedule = class.Name
	return nil
}

// maxDevices is the maximum number of devices of a process: each is a goroutine with memory of its own.
const maxDevices = 4096

// overflow reports whether there are more than maxDevices.
func (s Strategy) overflow() bool {
	n := 1
	for _, degree := range []int{max(s.TP, 1), max(s.PP, 1), max(s.CP, 1), max(s.DP, s.EP, 1)} {
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
