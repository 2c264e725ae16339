package pipeline_test

import (
	"testing"

	"github.com/galley-ml/galley/internal/pipeline"
)

// TestForwardHalf: of every schedule there is left one forward of each stage and micro-batch, in the order in
// which the schedule has them, and between stages on different ranks one message, received in order.
func TestForwardHalf(t *testing.T) {
	for _, class := range pipeline.Classes() {
		s, err := class.Generate(pipeline.Config{Ranks: 2, Micros: 8, Chunks: class.Each()})
		if err != nil {
			t.Fatal(err)
		}
		for _, micros := range []int{1, 3, 8} {
			half := pipeline.ForwardHalf(s, micros)
			type way struct{ from, to int }
			sent, received := map[way][]pipeline.Action{}, map[way][]pipeline.Action{}
			forwards, messages := 0, 0
			for rank, actions := range half.Ranks {
				for _, a := range actions {
					switch {
					case a.Kind == pipeline.Forward:
						forwards++
					case a.Kind == pipeline.SendForward:
						w := way{rank, half.Place[a.Peer()]}
						messages, sent[w] = messages+1, append(sent[w], pipeline.Action{Stage: a.Peer(), Micro: a.Micro})
					case a.Kind == pipeline.RecvForward:
						w := way{half.Place[a.Peer()], rank}
						received[w] = append(received[w], pipeline.Action{Stage: a.Stage, Micro: a.Micro})
					default:
						t.Errorf("%s: %v goes backward", class.Name, a)
					}
				}
			}
			crossing := 0
			for i := range half.Stages - 1 {
				if half.Place[i] != half.Place[i+1] {
					crossing++
				}
			}
			if forwards != half.Stages*micros || messages != crossing*micros {
				t.Errorf("%s: %d forwards and %d messages: want %d and %d", class.Name, forwards, messages,
					half.Stages*micros, crossing*micros)
			}
			for w, list := range sent {
				for i, a := range list {
					if len(received[w]) != len(list) || received[w][i] != a {
						t.Fatalf("%s: ranks %v: sent %v, received %v", class.Name, w, list, received[w])
					}
				}
			}
		}
	}
}
