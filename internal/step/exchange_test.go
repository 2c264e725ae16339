package step

import (
	"fmt"
	"testing"
)

// TestExchanges: what a stage is said to send is what the next or the one before is said to receive, and what
// the tape of its device sends in a step; parts with collectives are listed with how often they run.
func TestExchanges(t *testing.T) {
	for _, x := range samples {
		p := x.step(t)
		sent, received := map[string]float64{}, map[string]float64{}
		messages := make([]int, x.ranks)
		for stage, s := range p.Stages {
			for _, c := range p.Exchanges(stage) {
				key := fmt.Sprintf("%s to %s: %s", c.From, c.To, c.Tensor)
				switch c.Kind {
				case "send":
					sent[key] += c.Bytes * float64(c.Count)
					messages[s.Rank] += c.Count
				case "receive":
					received[key] += c.Bytes * float64(c.Count)
				default:
					if c.Count < 1 || c.Count > x.micros {
						t.Errorf("%+v: stage %d: %v happens %d times in %d micro-batches", x, stage, c, c.Count, x.micros)
					}
				}
			}
		}
		if len(sent) != len(received) || x.ranks > 1 && len(sent) == 0 {
			t.Errorf("%+v: sent %v, received %v", x, sent, received)
		}
		for k, n := range sent {
			if received[k] != n {
				t.Errorf("%+v: %s: sent %g bytes, received %g", x, k, n, received[k])
			}
		}
		for rank, n := range messages {
			if want := p.Load(p.Meshes[rank].Devices()[0]).Messages; n != want {
				t.Errorf("%+v: rank %d: %d messages are listed, its tape has %d", x, rank, n, want)
			}
		}
	}
	update := sample{1, 2, 2, "1f1b", 0}.step(t).Exchanges(-1)
	if len(update) == 0 {
		t.Error("gradients are summed over dp in the update: nothing is listed")
	}
}
