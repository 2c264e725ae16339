package paged_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/nn"
)

// TestKVFormats: keys and values in 16 and 8 bits take half and little more than a quarter of the memory, and
// change logits by little; other formats are refused.
func TestKVFormats(t *testing.T) {
	m := pagedtest.Model(t, "llama", nn.Config{Scope: session(t), Seed: 7})
	ids := tokens(rand.New(rand.NewPCG(1, 1)), 200, 37)
	var want []float32
	var whole int
	for _, c := range []struct {
		format paged.KVFormat
		limit  float64
		memory float64
	}{{paged.KVF32, 0, 1}, {paged.KVBF16, 0.03, 0.5}, {paged.KVInt8, 0.06, 0.25 + 0.1}} {
		p, err := paged.New(m, paged.Config{KV: c.format})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		got := append([]float32(nil), alone(p, ids)...)
		if want == nil {
			want, whole = got, p.PageBytes()
		}
		sum, size := 0.0, 0.0
		for i, x := range got {
			sum += math.Pow(float64(x-want[i]), 2)
			size += math.Pow(float64(want[i]), 2)
		}
		far := math.Sqrt(sum / size)
		t.Logf("%s: off by %.4f of the logits, %d bytes a page", c.format, far, p.PageBytes())
		if far > c.limit || c.limit > 0 && far == 0 {
			t.Errorf("%s: logits are off by %v, want at most %v", c.format, far, c.limit)
		}
		if got := float64(p.PageBytes()) / float64(whole); got > c.memory {
			t.Errorf("%s: %v of the memory of f32, want at most %v", c.format, got, c.memory)
		}
	}
	if _, err := paged.New(m, paged.Config{KV: "int3"}); err == nil {
		t.Error("int3: got no error")
	}
}
