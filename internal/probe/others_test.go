package probe

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/galley-ml/galley"
)

// TestAlone: what others had of the machine is left out.
func TestAlone(t *testing.T) {
	n := float64(runtime.GOMAXPROCS(0))
	for _, test := range []struct {
		usage
		seconds, want float64
	}{
		{usage{}, 3, 3}, // the system does not say
		{usage{Ran: 2}, 3, 3},
		{usage{Ran: 1 * n, Waited: 1 * n}, 2, 1},       // others have half of each processor
		{usage{Ran: 0.5 * n, Waited: 0.5 * n}, 2, 1},   // likewise, and half the time nothing is to be done
		{usage{Ran: 1 * n, Waited: 9 * n}, 5, 1},       // more threads wait than there are processors
		{usage{Ran: 3 * n, Waited: 0.1 * n}, 2.9, 2.9}, // clocks differ a little
	} {
		if got := test.alone(test.seconds); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v of %v s: got %v, want %v", test.usage, test.seconds, got, test.want)
		}
	}
}

// crowded takes steps on a processor that another program has for a while.
type crowded struct {
	sleeper
	u      *usage
	others time.Duration
}

func (s crowded) Step() error {
	err := s.sleeper.Step()
	*s.clock = s.clock.Add(s.others)
	s.u.Ran, s.u.Waited = s.u.Ran+s.took.Seconds(), s.u.Waited+s.others.Seconds()
	return err
}

// TestProbeOthers: the faster one is chosen although other programs run in all of its turns and in none of
// the slower one's.
func TestProbeOthers(t *testing.T) {
	c := sleepers(20, 10)
	u := usage{Ran: 1}
	c.used = func() usage { return u }
	make := c.Open
	c.Open = func(s galley.Strategy) (Stepper, error) {
		x, err := make(s)
		return crowded{x.(sleeper), &u, time.Duration(s.DP-1) * 50 * time.Millisecond}, err
	}
	r, err := Run(c)
	if err != nil || r.Best().Strategy.DP != 2 || math.Abs(r.Best().Seconds()-0.010) > 0.001 {
		t.Errorf("got %v and %v, want the second, at 10 ms", r, err)
	}
}

// TestUsed: what this process has had grows with what it does.
func TestUsed(t *testing.T) {
	had, x := used(), 1.0
	if had.Ran == 0 {
		t.Skip("this system does not say how long threads have run")
	}
	for end := time.Now().Add(2 * time.Minute); used().Ran < had.Ran+0.05; {
		for range 100000 {
			x = math.Sqrt(x + 1)
		}
		if time.Now().After(end) {
			t.Fatalf("%v after two minutes of computing, %v before (%v)", used(), had, x)
		}
	}
}
