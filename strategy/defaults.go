package strategy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/pipeline"
)

// WithDefaults fills in what may be left out and checks the rest.
func (s Strategy) WithDefaults() (Strategy, error) {
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
		if p, err := pipeline.Parse(s.Schedule); s.OwnSchedule() && err == nil {
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
	err := s.spellSchedule()
	return s, err
}

// spellSchedule makes the schedule's name that of its class, where it is not a schedule's text.
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
