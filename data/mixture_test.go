package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"pgregory.net/rapid"
)

// corpusOf makes documents of the given lengths whose tokens are all different.
func corpusOf(lengths ...int) *Corpus {
	var docs [][]int32
	next := int32(0)
	for _, n := range lengths {
		d := make([]int32, n)
		for i := range d {
			d[i], next = next, next+1
		}
		docs = append(docs, d)
	}
	return NewCorpus(docs...)
}

func lengths(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 23), 1, 40).Draw(t, "lengths")
}

// TestPack: every token of every document is in one place of one row, with its successor as label and its
// place in its piece as position; segments keep documents apart; and rows are no more than first fit could
// need.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes, seq := lengths(t), rapid.IntRange(1, 9).Draw(t, "seq")
		c := corpusOf(sizes...)
		p, err := Pack(Pieces(c, seq), seq)
		if c.Len() == 0 {
			if err == nil {
				t.Fatal("no examples: got no error")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := make([]int, c.Len())
		last := map[int32]bool{} // tokens that end a document
		for d := range c.Documents() {
			if n := c.DocumentLen(d); n > 0 {
				last[int32(c.begins[d])+int32(n)-1] = true
			}
		}
		tokens := 0
		for i := range p.Len() {
			r := newRows(1, seq, true).row(0)
			p.Fill(i, r)
			for j, id := range r.IDs {
				if r.Segments[j] == 0 {
					if r.Labels[j] != IgnoreLabel {
						t.Fatalf("row %d: padding has label %d", i, r.Labels[j])
					}
					continue
				}
				tokens++
				seen[id]++
				want := id + 1
				if last[id] {
					want = IgnoreLabel
				}
				if r.Labels[j] != want {
					t.Fatalf("token %d predicts %d, want %d", id, r.Labels[j], want)
				}
				if begins := j == 0 || r.Segments[j-1] != r.Segments[j]; begins != (r.Positions[j] == 0) ||
					!begins && (r.IDs[j-1] != id-1 || r.Positions[j] != r.Positions[j-1]+1) {
					t.Fatalf("row %d: %v in segments %v at positions %v", i, r.IDs, r.Segments, r.Positions)
				}
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Fatalf("token %d is in %d rows", id, n)
			}
		}
		// Two rows that are at most half full would have been one.
		if most := 2*tokens/seq + 1; p.Len() > most {
			t.Fatalf("%d rows of %d for %d tokens", p.Len(), seq, tokens)
		}
	})
}

// TestSplitByDocument: parts are whole documents, all of them, and those of another seed are others.
func TestSplitByDocument(t *testing.T) {
	c := corpusOf(slices.Repeat([]int{3, 0, 7}, 40)...)
	var first []int64
	for seed := range uint64(3) {
		train, held, err := c.Split(0.1, seed)
		if err != nil || held.Documents() != 12 || train.Documents() != 108 || train.Len()+held.Len() != c.Len() {
			t.Fatalf("got %d and %d documents, %v", train.Documents(), held.Documents(), err)
		}
		if all := slices.Sorted(slices.Values(append(slices.Clone(train.at), held.at...))); !slices.Equal(all,
			c.at) {
			t.Errorf("parts have other documents")
		}
		if seed > 0 && slices.Equal(first, held.at) {
			t.Errorf("two seeds hold out the same documents")
		}
		first = held.at
		ids := make([]int32, held.Len())
		held.Read(ids, 0)
		at := 0
		for d := range held.Documents() {
			want := make([]int32, held.DocumentLen(d))
			held.ReadDocument(d, want, 0)
			if !slices.Equal(ids[at:at+len(want)], want) {
				t.Fatalf("document %d: got %v, want %v", d, ids[at:at+len(want)], want)
			}
			at += len(want)
		}
	}
	for _, bad := range []float64{-1, 1, math.NaN()} {
		if _, _, err := c.Split(bad, 0); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
}

func mixture(t testing.TB, c MixtureConfig, weights ...float64) *Mixture {
	t.Helper()
	var list []MixtureSource
	for i, w := range weights {
		rows, err := Windows(InMemory(count(100*(i+1))), c.Seq)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, MixtureSource{Name: fmt.Sprint(i), Rows: rows, Weight: w})
	}
	m, err := NewMixture(list, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMixtureShares: every beginning of a run has each source's share, as exactly as whole samples can, and
// an epoch of a source deals each of its rows once.
func TestMixtureShares(t *testing.T) {
	weights := []float64{0.62, 0.3, 0.08}
	m := mixture(t, MixtureConfig{Batch: 1, Seq: 3, Seed: 5}, weights...)
	counts := make([]int, 3)
	seen := map[SampleID]bool{}
	for k := range int64(3 * cycleLen) {
		id := m.ID(k)
		if seen[id] {
			t.Fatalf("sample %d: %+v came before", k, id)
		}
		seen[id] = true
		counts[id.Source]++
		for s, w := range weights {
			if d := math.Abs(float64(counts[s]) - w*float64(k+1)); d > 2 {
				t.Fatalf("after %d samples source %d has %d, want %.1f", k+1, s, counts[s], w*float64(k+1))
			}
		}
	}
	for s := range weights {
		if want := counts[s] / m.sources[s].Rows.Len(); !seen[SampleID{s, 0, int64(want - 1)}] {
			t.Errorf("source %d: row 0 is not in epoch %d", s, want-1)
		}
	}
}

// TestMixtureResumes: a run over three sources that is stopped 20 times at random samples, and continues with
// batches of another size on another number of devices, each of which makes its own part, deals the samples
// of a run that is not stopped.
func TestMixtureResumes(t *testing.T) {
	weights := []float64{5, 3, 1}
	const total = 5000
	whole := mixture(t, MixtureConfig{Batch: 1, Seq: 4, Seed: 9}, weights...)
	var want []string
	for k := range int64(total) {
		want = append(want, fmt.Sprint(whole.From(k)))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var got []string
	for range 20 {
		devices, each := 1+r.IntN(4), 1+r.IntN(5)
		m := mixture(t, MixtureConfig{Batch: each, Seq: 4, Seed: 9}, weights...)
		for range 1 + r.IntN(20) { // steps until it is killed
			at := int64(len(got))
			for d := range devices {
				batch := m.From(at + int64(d*each))
				for i := range each {
					got = append(got, fmt.Sprint([]array.Array{batch[0].Rows(i, i+1), batch[1].Rows(i, i+1)}))
				}
			}
		}
	}
	if len(got) > total {
		t.Fatalf("%d samples: want at most %d", len(got), total)
	}
	for k := range got {
		if got[k] != want[k] {
			t.Fatalf("sample %d: got %s, want %s", k, got[k], want[k])
		}
	}
}

// TestMixtureIsASampler: one source of windows is dealt as a Sampler deals it.
func TestMixtureIsASampler(t *testing.T) {
	m := mixture(t, MixtureConfig{Batch: 3, Seq: 4, Seed: 7}, 2)
	s := newSampler(t, count(100), SamplerConfig{Batch: 3, Seq: 4, Seed: 7})
	for i := range 40 {
		want, err := Tokens(s).Batch(i)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := m.Batch(i); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("batch %d: got %v, want %v", i, got, want)
		}
	}
}

func TestMixtureErrors(t *testing.T) {
	rows, err := Windows(InMemory(count(9)), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		weights []float64
		want    string
	}{
		{nil, "0 sources"}, {[]float64{1, 0}, "weight: got 0"}, {[]float64{math.NaN()}, "weight: got NaN"},
		{[]float64{1, 1e-9}, "less than one sample in 16384"},
	} {
		var list []MixtureSource
		for _, w := range test.weights {
			list = append(list, MixtureSource{Name: "web", Rows: rows, Weight: w})
		}
		_, err := NewMixture(list, MixtureConfig{Batch: 1, Seq: 2})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q in it", test.weights, err, test.want)
		}
	}
	if _, err := Windows(InMemory(count(2)), 2); err == nil {
		t.Error("too short a text: got no error")
	}
	if _, err := Pad(Pieces(corpusOf(5), 5), 3); err == nil || !strings.Contains(err.Error(), "got 5 tokens") {
		t.Errorf("too long an example: got %v", err)
	}
}

// TestBuckets: each epoch has every token once, every batch the length of its bucket, and no bucket a
// program more than it is told.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes, batch := lengths(t), rapid.IntRange(1, 4).Draw(t, "batch")
		c := corpusOf(sizes...)
		if c.Len() == 0 {
			return
		}
		b, err := NewBuckets(Pieces(c, 12), BucketsConfig{Batch: batch, Seed: 3, Lengths: []int{3, 6, 12}})
		if err != nil {
			t.Fatal(err)
		}
		for epoch := range 2 {
			seen := make([]int, c.Len())
			for i := range b.Len() {
				arrays, _ := b.Batch(epoch*b.Len() + i)
				width := arrays[0].Shape()[1]
				if arrays[0].Shape()[0] != batch || !slices.Contains([]int{3, 6, 12}, width) {
					t.Fatalf("batch %d has shape %v", i, arrays[0].Shape())
				}
				ids, labels := array.Data[int32](arrays[0]), array.Data[int32](arrays[1])
				for j, id := range ids {
					// A token counts by its label, or as the last of a document.
					if labels[j] == id+1 {
						seen[id]++
					}
				}
			}
			for d := range c.Documents() {
				for id := c.begins[d]; id < c.begins[d+1]-1; id++ {
					if seen[id] != 1 {
						t.Fatalf("epoch %d: token %d predicts %d times", epoch, id, seen[id])
					}
				}
			}
		}
	})
	c := corpusOf(4, 5)
	for _, test := range []struct {
		config BucketsConfig
		want   string
	}{
		{BucketsConfig{Batch: 1, Lengths: []int{8, 4}}, "rising"}, {BucketsConfig{Batch: 1}, "rising"},
		{BucketsConfig{Lengths: []int{8}}, "batch: got 0"},
		{BucketsConfig{Batch: 1, Lengths: []int{4, 8}, Programs: 1}, "at most 1"},
		{BucketsConfig{Batch: 1, Lengths: []int{4}}, "got 5 tokens"},
	} {
		if _, err := NewBuckets(Pieces(c, 8), test.config); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q in it", test.config, err, test.want)
		}
	}
}
