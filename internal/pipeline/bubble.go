package pipeline

import "fmt"

// Bubble returns the closed form of Timeline.LongestIdle for a generated schedule: for how long the rank that
// idles most does so between its first action and its last. It holds where all stages cost the same and
// messages take no time; with p ranks, m micro-batches and v chunks, and the costs of one chunk:
//
//	fthenb, 1f1b  (p-1)(F+B)
//	interleaved   (p-1)(F+B), and (v-1)(p-m)(F+B) more if m < p
//	zbh1          (p-1)(F+I) - (min(m,p)-1)·min(F,W), so (p-1)(F+B-2W) if m >= p and W <= F
//	zbv           0 if F = I = W and m >= 2p
//	dualpipev     (p-1)(P+B-3W) - (p-2)(F+B-P) for a pair of time P if F = I = W, P >= 2F and m >= 2p; the paper has
//	              the first term alone, which is all there is if P = F+B
//
// Elsewhere there is no closed form, and the error says so: Simulate.
func Bubble(name string, c Config, costs Costs) (float64, error) {
	class, err := Lookup(name)
	if err != nil {
		return 0, err
	}
	if c, err = class.resolve(c); err != nil {
		return 0, err
	}
	t, err := alike(class.Name, costs)
	if err != nil {
		return 0, err
	}
	return class.idle(c, t)
}

func plainIdle(c Config, t times) (float64, error) { return float64(c.Ranks-1) * (t.f + t.b), nil }

func interleavedIdle(c Config, t times) (float64, error) {
	p, m := float64(c.Ranks), float64(c.Micros)
	return ((p - 1) + float64(c.Chunks-1)*max(p-m, 0)) * (t.f + t.b), nil
}

func zeroBubbleH1Idle(c Config, t times) (float64, error) {
	if t.w > t.f && t.w > t.i {
		return 0, noForm("zbh1", "weight gradients take longer than anything else")
	}
	p, m := float64(c.Ranks), float64(c.Micros)
	return (p-1)*(t.f+t.i) - (min(m, p)-1)*min(t.f, t.w), nil
}

func zeroBubbleVIdle(c Config, t times) (float64, error) { return 0, veeForm("zbv", c, t) }

func dualPipeVIdle(c Config, t times) (float64, error) {
	if err := veeForm("dualpipev", c, t); err != nil || c.Ranks == 1 {
		return 0, err
	}
	if t.pair < 2*t.f {
		return 0, noForm("dualpipev", "a joined pair takes less than two forwards")
	}
	p := float64(c.Ranks)
	return (p-1)*(t.pair+t.b-3*t.w) - (p-2)*(t.f+t.b-t.pair), nil
}

// veeForm returns an error unless V-shaped schedules have closed forms for these times.
func veeForm(name string, c Config, t times) error {
	if t.f != t.i || t.i != t.w || t.b != t.i+t.w {
		return noForm(name, "forward, input and weight gradients do not take equally long")
	}
	if c.Micros < 2*c.Ranks && c.Ranks > 1 {
		return noForm(name, fmt.Sprintf("%d micro-batches are fewer than two for each of %d ranks", c.Micros,
			c.Ranks))
	}
	return nil
}

func noForm(name, why string) error {
	return fmt.Errorf("bubble of %s: no closed form: %s: simulate it", name, why)
}

// times holds the costs of equal stages.
type times struct{ f, b, i, w, pair float64 }

// alike returns the costs of any stage, if they are the same for all stages and micro-batches and messages
// are free.
func alike(name string, c Costs) (times, error) {
	for _, v := range [][]float64{c.Forward, c.Backward, c.Input, c.Weight, c.Pair} {
		for _, x := range v {
			if x != v[0] {
				return times{}, noForm(name, "stages differ")
			}
		}
	}
	for _, v := range [][]float64{c.Transfer, c.Latency} {
		for _, x := range v {
			if x != 0 {
				return times{}, noForm(name, "messages take time")
			}
		}
	}
	if c.Micro != nil {
		return times{}, noForm(name, "micro-batches differ")
	}
	var t table
	if err := t.load(&c, max(1, len(c.Forward), len(c.Backward), len(c.Input), len(c.Weight),
		len(c.Pair))); err != nil {
		return times{}, err
	}
	out := times{f: t.time[Forward][0], b: t.time[Backward][0], i: t.time[Input][0], w: t.time[Weight][0]}
	if out.pair = out.f + out.b; len(t.pair) > 0 {
		out.pair = t.pair[0]
	}
	return out, nil
}
