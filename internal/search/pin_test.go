package search

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/strategy"
)

func TestPin(t *testing.T) {
	s := strategy.Strategy{DP: 4, TP: 2, PP: 2, VPP: 2, MicroBatch: 1, Zero: 1, Sequence: true,
		Recompute: strategy.FullLayers(3), Layers: []int{8, 8, 9, 7}}
	for text, want := range map[string]bool{
		"": true, "; ,;": true, "tp=2": true, "tp=2 ; pp=2,;": true, "tp=2 pp=2, cp=1": true, "tp=4": false,
		"sp": true, "sp=false": false, "schedule=interleaved": true, "schedule=1f1b": false,
		"schedule=Interleaved1F1B": true, "schedule=INTERLEAVED": true,
		"recompute=full:3": true, "recompute=none": false, "zero=1 shard=0": true, "layers=8,8,9,7": true,
		"offload.optimizer=0": true, "offload.optimizer=1": false,
	} {
		p, err := ParsePin(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if p.allows(s) != want {
			t.Errorf("%q allows %s: %v, want %v", text, s, !want, want)
		}
	}
	for text, want := range map[string]string{"tp": `"tp"`, "tp=2 tp=4": "tp is said twice",
		"speed=9": "want dp, tp, pp", "recompute=some": "want none, selective",
		"schedule=sideways": "want one of"} {
		if _, err := ParsePin(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Every plan of a pinned search is as the pin asks.
func TestPinnedSearch(t *testing.T) {
	for _, text := range []string{"tp=2", "pp=2 schedule=interleaved", "zero=1 recompute=full", "sp=false tp=4",
		"cp=2 cp_kind=gather micro_batch=1", "pp=2 vpp=1 layers=17,15"} {
		for _, p := range find(t, "llama-3-8b", "2x8 H100-SXM ib=400G", 64, 4096, text).Plans {
			if pin, _ := ParsePin(text); !pin.allows(p.Strategy) {
				t.Errorf("%s: %s", text, p.Strategy)
			}
		}
	}
}

func FuzzParsePin(f *testing.F) {
	for _, text := range []string{"", "tp=4 pp=2", "recompute=full:2,zero=3", "layers=1,2", "sp=x",
		"tp=9999999999999999999", "; ;", "schedule=a,\u0085,", "tp=2;7"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePin(text)
		if err != nil {
			return
		}
		if q, err := ParsePin(p.String()); err != nil || q.String() != p.String() {
			t.Fatalf("%q reads back as %q: %v", p, q, err)
		}
		p.allows(strategy.Strategy{DP: 2})
	})
}
