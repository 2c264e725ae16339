package step

import (
	"math"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/ir"
)

// flat prices everything alike.
type flat struct{}

func (flat) Node(*ir.Node, int) float64 { return 1e-3 }
func (flat) Deliver(float64) float64    { return 1e-3 }
func (flat) Copy(float64) float64       { return 0 }

// TestForecast holds the clock to what must be so on any machine: one core does all the work one after the
// other, more cores are never slower and never faster than their number, and a crowd slows things down by at
// most what is said.
func TestForecast(t *testing.T) {
	for _, x := range []sample{{ranks: 1, dp: 1, micros: 1, schedule: "1f1b"},
		{ranks: 1, dp: 4, micros: 2, schedule: "1f1b"},
		{ranks: 2, dp: 2, micros: 4, schedule: "1f1b", zero: 2}, {ranks: 4, dp: 1, micros: 4, schedule: "zbh1"}} {
		s, err := New(x.config(t))
		if err != nil {
			t.Fatal(err)
		}
		get := func(cores int, crowd float64) Forecast {
			t.Helper()
			f, err := s.Forecast(Machine{Cores: cores, Crowd: crowd, Prices: flat{}})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		one := get(1, 1)
		if math.Abs(one.Seconds-one.Work) > 1e-9 || one.Work <= 0 {
			t.Errorf("%+v on one core: got %g s for %g s of work", x, one.Seconds, one.Work)
		}
		last := one
		for cores := 2; cores <= 8; cores *= 2 {
			f := get(cores, 1)
			if math.Abs(f.Work-one.Work) > 1e-9 || f.Seconds > last.Seconds+1e-9 ||
				f.Seconds*float64(cores) < f.Work-1e-9 {
				t.Errorf("%+v on %d cores: got %+v, on fewer %+v", x, cores, f, last)
			}
			last = f
		}
		if c, f := get(2, 1.5), get(2, 1); c.Seconds < f.Seconds || c.Seconds > 1.5*f.Seconds+1e-9 {
			t.Errorf("%+v: two cores that slow each other down: got %g s, without that %g s", x, c.Seconds, f.Seconds)
		}
		if len(s.Programs()) == 0 {
			t.Errorf("%+v: want programs", x)
		}
	}
}

// TestForecastShares says that four equal devices on two cores take half of their work, whatever the turns.
func TestForecastShares(t *testing.T) {
	s, err := New(sample{ranks: 1, dp: 4, micros: 1, schedule: "1f1b"}.config(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Forecast(Machine{Cores: 2, Crowd: 1, Prices: flat{}})
	if err != nil {
		t.Fatal(err)
	}
	if f.Seconds > 0.55*f.Work {
		t.Errorf("got %g s for %g s of work on two cores, want about half", f.Seconds, f.Work)
	}
	if _, err := s.Forecast(Machine{Prices: flat{}}); err == nil {
		t.Error("want a machine without cores refused")
	}
}

// TestForecastSpread says that ops whose times differ make devices wait for each other, though their work
// stays about the same, and that a forecast does not depend on when it is made.
func TestForecastSpread(t *testing.T) {
	s, err := New(sample{ranks: 1, dp: 4, micros: 8, schedule: "1f1b", zero: 2}.config(t))
	if err != nil {
		t.Fatal(err)
	}
	get := func(spread float64) Forecast {
		f, err := s.Forecast(Machine{Cores: 4, Crowd: 1, Spread: spread, Prices: flat{}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	even, uneven := get(0), get(0.3)
	if math.Abs(uneven.Work-even.Work) > 0.1*even.Work {
		t.Errorf("work: got %g s, want about %g", uneven.Work, even.Work)
	}
	if uneven.Waiting < even.Waiting+0.02*even.Work {
		t.Errorf("waiting: got %g s of %g, want more than the %g of equal times", uneven.Waiting, uneven.Work,
			even.Waiting)
	}
	if again := get(0.3); again != uneven {
		t.Errorf("got %+v, then %+v", uneven, again)
	}
}

// TestForecastWatched: watching changes no forecast; every device's instructions are told one after the other
// within it, and its collectives within them.
func TestForecastWatched(t *testing.T) {
	for _, x := range samples {
		p := x.step(t)
		m := Machine{Cores: p.Devices(), Crowd: 1, Prices: Nominal{}}
		alone, err := p.Forecast(m)
		if err != nil {
			t.Fatal(err)
		}
		spans := make([][]Span, p.Devices())
		m.Watch = func(s Span) { spans[s.Device] = append(spans[s.Device], s) }
		watched, err := p.Forecast(m)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(alone.Seconds-watched.Seconds) > 1e-9*alone.Seconds {
			t.Errorf("%+v: watched it takes %g s, else %g s", x, watched.Seconds, alone.Seconds)
		}
		for d, list := range spans {
			calls, end := 0, time.Time{}
			for _, s := range list {
				if s.Kind == Exchange {
					continue
				}
				if s.Start.Before(end) || s.End.Sub(time.Time{}).Seconds() > watched.Seconds+1e-9 {
					t.Errorf("%+v: device %d: %+v after %v", x, d, s, end)
				}
				if end = s.End; s.Kind == Work {
					calls++
				}
			}
			want := 0
			for _, in := range p.tapes[d].code {
				if in.kind == call && len(in.exe.Func().Nodes()) > 0 {
					want++
				}
			}
			if calls != want {
				t.Errorf("%+v: device %d: %d calls were told, want %d", x, d, calls, want)
			}
		}
	}
}
