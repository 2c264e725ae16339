package step

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestAway: with any parts of state and activations elsewhere, steps have the same bits, devices take less
// and what was planned, and the plan is read back as it was.
func TestAway(t *testing.T) {
	for _, x := range samples {
		want := trainPlan(t, x.step(t), x.micros)
		for _, away := range []Offload{{Weights: 1}, {Slots: 1}, {Slots: 0.5}, {Activations: 1},
			{Weights: 0.5, Slots: 0.5, Activations: 0.5}, {1, 1, 1, 0}} {
			t.Run(fmt.Sprintf("%+v %+v", x, away), func(t *testing.T) {
				c := x.config(t)
				c.Offload = away
				p, err := New(c)
				if err != nil {
					t.Fatal(err)
				}
				got := trainPlan(t, p, x.micros)
				if !reflect.DeepEqual(got.losses, want.losses) || !reflect.DeepEqual(got.state, want.state) {
					t.Errorf("losses are %v, want %v and the same state", got.losses, want.losses)
				}
				elsewhere := 0
				for d := range p.Devices() {
					elsewhere += p.OffloadedBytes(d)
					if got.taken[d] != p.Memory(d).Peak() {
						t.Errorf("device %d took %d bytes, predicted were %d", d, got.taken[d], p.Memory(d).Peak())
					}
					if away.Weights == 1 && p.Memory(d).Weights > 0 || away.Slots == 1 && p.Memory(d).Slots > 0 {
						t.Errorf("device %d keeps %+v", d, p.Memory(d))
					}
				}
				if elsewhere == 0 {
					t.Error("nothing is away")
				}
				back := reread(t, p)
				if again := trainPlan(t, back, x.micros); !reflect.DeepEqual(again, got) {
					t.Errorf("read back, it has losses %v, want %v", again.losses, got.losses)
				}
			})
		}
	}
}

// TestShare: what is chosen is at most the part that is asked for, misses it by less than the largest tensor,
// and is all of it for 1.
func TestShare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := share{part: float64(r.IntN(9)) / 8}
		total, taken, largest := 0, 0, 0
		for range 1 + r.IntN(30) {
			n := 1 + r.IntN(1000)
			total, largest = total+n, max(largest, n)
			if s.takes(n) {
				taken += n
			}
		}
		want := s.part * float64(total)
		if float64(taken) > want+1 || float64(taken) < want-float64(largest) || s.part == 1 && taken != total {
			t.Fatalf("%g of %d: got %d", s.part, total, taken)
		}
	}
}
