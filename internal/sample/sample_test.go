package sample_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/internal/sample"
)

// reference returns the distribution that a configuration means, by sorting everything.
func reference(logits []float32, c sample.Config) map[int32]float64 {
	type token struct {
		id int32
		p  float64
	}
	var list []token
	top := slices.Max(logits)
	for i, x := range logits {
		list = append(list, token{int32(i), math.Exp(float64(x-top) / c.Temperature)})
	}
	slices.SortStableFunc(list, func(a, b token) int { return cmp.Compare(b.p, a.p) })
	if c.TopK > 0 {
		list = list[:min(c.TopK, len(list))]
	}
	list = slices.DeleteFunc(list, func(t token) bool { return t.p < c.MinP*(1-1e-6) })
	total := 0.0
	for _, t := range list {
		total += t.p
	}
	if c.TopP > 0 && c.TopP < 1 {
		sum := 0.0
		for i, t := range list {
			if sum += t.p; sum >= c.TopP*total {
				list, total = list[:i+1], sum
				break
			}
		}
	}
	out := map[int32]float64{}
	for _, t := range list {
		out[t.id] = t.p / total
	}
	return out
}

// TestDistribution: draws have the frequencies that sorting the whole vocabulary would give.
func TestDistribution(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 50)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 2)
	}
	logits[7], logits[9] = logits[3], logits[3] // equals
	for _, c := range []sample.Config{
		{Temperature: 1}, {Temperature: 0.7, TopK: 5}, {Temperature: 1.3, TopP: 0.8},
		{Temperature: 1, TopK: 20, TopP: 0.5},
		{Temperature: 2, MinP: 0.2}, {Temperature: 0.5, MinP: 0.1, TopK: 3, TopP: 0.99},
		{Temperature: 1, TopK: 500},
	} {
		want, got := reference(logits, c), map[int32]float64{}
		const draws = 20000
		s := sample.New(c, nil, 0)
		for range draws {
			x, err := s.Choose(slices.Clone(logits), nil)
			if err != nil {
				t.Fatal(err)
			}
			got[x.ID] += 1.0 / draws
		}
		for id := range int32(50) {
			if d := math.Abs(got[id] - want[id]); d > 0.02 || want[id] == 0 && got[id] > 0 {
				t.Errorf("%+v: token %d: got %.3f, want %.3f", c, id, got[id], want[id])
			}
		}
	}
}

// TestPenalties: each does what its definition says, once for a token that is both prompted and generated.
func TestPenalties(t *testing.T) {
	logits := []float32{2, 1.9, -1, 1.5, 0}
	for _, c := range []struct {
		name   string
		config sample.Config
		prompt []int32
		want   []int32
	}{
		{"plain", sample.Config{}, nil, []int32{0, 0, 0}},
		{"repetition", sample.Config{Repetition: 1.2}, []int32{0}, []int32{1, 0, 0}}, // 1.67; then 1.9/1.2=1.58
		{"presence", sample.Config{Presence: 0.45}, []int32{0}, []int32{0, 1, 0}},    // 1.55, 1.45, 1.5
		{"frequency", sample.Config{Frequency: 0.3}, nil, []int32{0, 1, 0}},          // 1.7, 1.6, 1.5
		{"bias", sample.Config{Bias: map[int32]float64{0: -100, 4: 1.95}}, nil, []int32{4, 4, 4}},
	} {
		s := sample.New(c.config, c.prompt, 0)
		for i, want := range c.want {
			got, err := s.Choose(slices.Clone(logits), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.ID != want {
				t.Errorf("%s: token %d: got %d, want %d", c.name, i, got.ID, want)
			}
		}
	}
}

// TestLogProbs: those of the model itself, whatever changes the choice.
func TestLogProbs(t *testing.T) {
	logits := []float32{1, 3, 2, 3}
	lse := math.Log(math.Exp(1) + 2*math.Exp(3) + math.Exp(2))
	s := sample.New(sample.Config{Top: 3, Bias: map[int32]float64{2: 10}}, nil, 0)
	got, err := s.Choose(slices.Clone(logits), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != 2 || math.Abs(got.LogProb-(2-lse)) > 1e-6 {
		t.Errorf("got %+v, want token 2 with %v", got, 2-lse)
	}
	for i, want := range []int32{1, 3, 2} {
		if c := got.Top[i]; c.ID != want || math.Abs(c.LogProb-(float64(logits[want])-lse)) > 1e-6 {
			t.Errorf("top %d: got %+v, want token %d", i, c, want)
		}
	}
	got, _ = s.Choose(slices.Clone(logits), []uint64{1})
	if got.ID != 0 {
		t.Errorf("only token 0 is allowed: got %d", got.ID)
	}
	if _, err := s.Choose(slices.Clone(logits), []uint64{0}); err == nil {
		t.Error("no token is allowed: got no error")
	}
	if _, err := s.Choose([]float32{1, float32(math.NaN())}, nil); err == nil {
		t.Error("a logit that is no number: got no error")
	}
}

// TestSeeds: equal seeds draw equal tokens, sequences of one request others.
func TestSeeds(t *testing.T) {
	draw := func(seed uint64, number int) (ids []int32) {
		s := sample.New(sample.Config{Temperature: 1, Seed: seed}, nil, number)
		for range 20 {
			c, err := s.Choose(make([]float32, 100), nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		return ids
	}
	if !slices.Equal(draw(1, 0), draw(1, 0)) || slices.Equal(draw(1, 0), draw(2, 0)) ||
		slices.Equal(draw(1, 0), draw(1, 1)) {
		t.Error("seeds do not decide the draws")
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []sample.Config{{Temperature: -1}, {TopK: -1}, {TopP: 2}, {MinP: -1}, {Presence: 3},
		{Frequency: -3},
		{Top: 1000}, {Bias: map[int32]float64{10: 1}}, {Repetition: math.NaN()}, {Temperature: math.NaN()}} {
		if c.Validate(10) == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
	if err := (sample.Config{Temperature: 1, TopK: 3, TopP: 0.5,
		Bias: map[int32]float64{9: -100}}).Validate(10); err != nil {
		t.Error(err)
	}
}
