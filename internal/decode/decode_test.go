package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/decode"
	"github.com/galley-ml/galley/internal/interpreter"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/internal/sample"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// pair is a model computed on the host by kernels and as programs of a backend.
type pair struct {
	host   *paged.Step
	device *decode.Step
}

func newPair(t *testing.T, m models.Model) pair {
	return pairOf(t, m, paged.Config{Threads: 1}, decode.Config{Backend: interpreter.New(1), Threads: 1})
}

func pairOf(t *testing.T, m models.Model, h paged.Config, d decode.Config) pair {
	t.Helper()
	host, err := paged.New(m, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	device, err := decode.New(m, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	const pages = 12
	step, err := decode.NewStep(device, pages, 4, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(step.Close)
	return pair{paged.NewStep(host, paged.NewCache(host, pages), 64), step}
}

// run computes sequences on both and compares logits and streams.
func (p pair) run(t *testing.T, tolerance float64, seqs ...paged.Sequence) []float32 {
	t.Helper()
	want := p.host.Run(seqs)
	got, err := p.device.Run(seqs)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "logits", got, want, tolerance)
	rows := 0
	for _, q := range seqs {
		rows += q.Want
	}
	for i := range rows {
		compare(t, fmt.Sprintf("stream of row %d", i), p.device.Row(i), p.host.Row(i), tolerance)
	}
	return want
}

func compare(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	for i, x := range want {
		if d := math.Abs(float64(x - got[i])); !(d <= tolerance*(1+math.Abs(float64(x)))) {
			t.Fatalf("%s: number %d: got %v, want %v", what, i, got[i], x)
		}
	}
}

func session(t *testing.T) *cpu.Session {
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	return d.NewSession()
}

func random(r *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(37))
	}
	return ids
}

// TestFamilies: programs of a backend give every family's logits as the host's kernels do: of chunks of
// prompts, of several sequences of different lengths together, and of tokens that a program chose by itself.
func TestFamilies(t *testing.T) {
	for family := range pagedtest.Families() {
		t.Run(family, func(t *testing.T) {
			if testing.Short() && family != "llama" && family != "mixtral" {
				t.Skip("families differ in numbers only")
			}
			t.Parallel()
			m := pagedtest.Model(t, family, nn.Config{Scope: session(t), Seed: 7})
			p := newPair(t, m)
			r := rand.New(rand.NewPCG(1, 1))
			a, b := random(r, 45), random(r, 3)
			pagesA, pagesB := []int32{7, 2, 9, 4}, []int32{0, 11}
			p.run(t, 2e-3, paged.Sequence{Pages: pagesA, Tokens: a[:30]},
				paged.Sequence{Pages: pagesB, Tokens: b, Want: 1})
			logits := p.run(t, 2e-3, paged.Sequence{Pages: pagesA, Start: 30, Tokens: a[30:], Want: 2},
				paged.Sequence{Pages: pagesB, Start: 3, Tokens: []int32{5}, Want: 1})
			first, second := likeliest(logits[37:74]), likeliest(logits[74:])
			want := [][]int32{p.greedy(pagesA, 45, first, 5), p.greedy(pagesB, 4, second, 1)}
			got, err := p.device.Ahead([]decode.Row{
				{Pages: pagesA, Start: 45, Token: first, Steps: 5, Sampler: sample.New(sample.Config{}, nil, 0)},
				{Pages: pagesB, Start: 4, Token: second, Steps: 1, Sampler: sample.New(sample.Config{}, nil, 0)}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if ids := idsOf(got[i]); !slices.Equal(ids, want[i]) {
					t.Errorf("row %d: got %v, want %v", i, ids, want[i])
				}
			}
		})
	}
}

// greedy returns the host's likeliest tokens after one.
func (p pair) greedy(pages []int32, start int, token int32, n int) (ids []int32) {
	for range n {
		next := paged.Sequence{Pages: pages, Start: start, Tokens: []int32{token}, Want: 1}
		token = likeliest(p.host.Run([]paged.Sequence{next}))
		ids, start = append(ids, token), start+1
	}
	return ids
}

func likeliest(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

func idsOf(list []sample.Choice) (ids []int32) {
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}
