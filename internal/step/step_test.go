package step

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/offload"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"pgregory.net/rapid"
)

// sample is what a small step is made of: two layers with a weight that both use, on dp devices for each
// rank.
type sample struct {
	ranks, dp, micros int
	schedule          string
	zero              int
}

func (x sample) config(t testing.TB) Config {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	square := ir.Type{DType: array.F64, Shape: array.Shape{4, 4}}
	b := ir.NewBuilder("forward")
	one, two, batch := b.Param("one", square), b.Param("two", square), b.Param("batch", square)
	h := op.Tanh(op.MatMul(batch, one))
	for i := 1; i < 2*x.ranks; i++ {
		h = op.Add(op.MatMul(op.Mark(h, fmt.Sprint("layer", i)), two), op.Mul(h, one))
	}
	f, err := b.Build(op.Sum(op.Square(h)), op.Const(op.Sum(batch), 4))
	must(err)
	c := Config{Forwards: []*ir.Func{f}, Variant: make([]int, x.micros),
		Between:   func(string) bool { return true },
		Recompute: func(string) stage.Recompute { return stage.RecomputeNone }}
	for rank := range x.ranks {
		var devices []int
		for i := range x.dp {
			devices = append(devices, rank*x.dp+i)
		}
		m, err := mesh.New([]mesh.Axis{{Name: "dp", Size: x.dp}}, devices...)
		must(err)
		c.Meshes = append(c.Meshes, m)
	}
	c.Schedule, err = pipeline.Generate(x.schedule, pipeline.Config{Ranks: x.ranks, Micros: x.micros})
	must(err)
	for i := 1; i < c.Schedule.Stages; i++ {
		c.Cuts = append(c.Cuts, fmt.Sprint("layer", i))
	}
	whole, split := mesh.Whole(2), mesh.Split(mesh.On("dp"), nil)
	for _, name := range []string{"one", "two"} {
		w := Weight{Name: name, Type: square, Layouts: Layouts{Use: whole, Rest: whole, Sum: whole, Slot: whole}}
		for i, at := range []*mesh.Spec{&w.Slot, &w.Sum, &w.Rest} {
			if x.zero > i {
				*at = split
			}
		}
		c.Weights = append(c.Weights, w)
	}
	c.Batch = []mesh.Sharding{mesh.Closed(split)}
	c.Update = Update{
		Slots:   func(int) []ir.Type { return []ir.Type{square} },
		Scalars: []ir.Type{{DType: array.F64}},
		Trace: func(in UpdateIn) (out UpdateOut) {
			for k, w := range in.Weights {
				kept := op.Add(in.Slots[k][0], op.Mul(in.Grads[k], op.Expand(in.Scale, 4, 4)))
				out.Weights = append(out.Weights, op.Sub(w, op.Mul(kept, op.Expand(in.Scalars[0], 4, 4))))
				out.Slots = append(out.Slots, []*op.Tensor{kept})
			}
			return out
		},
	}
	return c
}

func (x sample) step(t testing.TB) *Plan {
	t.Helper()
	s, err := New(x.config(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var samples = []sample{
	{1, 1, 1, "1f1b", 0}, {1, 2, 2, "1f1b", 0}, {1, 3, 2, "1f1b", 3}, {2, 1, 4, "fthenb", 0}, {2, 2, 4, "1f1b",
		1}, {2, 2, 3, "zbh1", 2}, {2, 1, 4, "zbv", 0}, {3, 1, 6, "dualpipev", 0}, {2, 2, 2, "1f1b", 3},
}

// TestSteps: every sample has the losses of the first, whose micro-batches are the same.
func TestSteps(t *testing.T) {
	for _, x := range samples {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			s := x.step(t)
			got := train(t, s, x.micros)
			alone := train(t, sample{ranks: 1, dp: 1, micros: x.micros, schedule: "1f1b"}.deep(t, x.ranks), x.micros)
			for i := range alone {
				if math.Abs(got[i]-alone[i]) > 1e-10 {
					t.Fatalf("losses are %v, want %v", got, alone)
				}
			}
			if len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("nothing is learned: %v", got)
			}
		})
	}
}

// deep returns the step on one device of the program that is for some ranks.
func (x sample) deep(t testing.TB, ranks int) *Plan {
	t.Helper()
	c, long := x.config(t), sample{ranks: ranks, dp: 1, micros: x.micros, schedule: "1f1b"}.config(t)
	c.Forwards = long.Forwards
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func train(t *testing.T, s *Plan, micros int) []float64 {
	t.Helper()
	w, err := inproc.New(s.Devices())
	if err != nil {
		t.Fatal(err)
	}
	got, err := trainOn(w, s, micros)
	if err != nil {
		t.Fatal(err)
	}
	for d := range s.Devices() {
		if want := s.Memory(d).Peak(); got.taken[d] != want {
			t.Errorf("device %d took %d bytes, predicted were %d", d, got.taken[d], want)
		}
	}
	return got.losses
}

// trained is what a few steps leave behind.
type trained struct {
	losses, norms []float64
	state         [][]byte // of Tensors
	taken         []int    // by device
}

// trainOn takes four steps on the devices of a world that live in this process.
func trainOn(w comm.World, s *Plan, micros int) (*trained, error) {
	r, err := s.Start(w, RunConfig{Offload: func(_ int, types []ir.Type) (offload.Store, error) {
		return offload.NewHost(types)
	}})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	wave := func(seed int) array.Array {
		a := array.New(array.F64, 4, 4)
		for i := range a.Len() {
			a.Set(i, 0.3*math.Sin(float64(seed*31+i)))
		}
		return a
	}
	for i := range 2 {
		if err := r.Write(Tensor{i, -1}, wave(100+i)); err != nil {
			return nil, err
		}
	}
	var batch [][]array.Array
	for m := range micros {
		batch = append(batch, []array.Array{wave(m)})
	}
	out := &trained{}
	for range 4 {
		report, err := r.Run(context.Background(), Input{Batch: batch, Scalars: []float64{0.01}, Weight: 2})
		if err != nil {
			return nil, err
		}
		out.losses, out.norms = append(out.losses, report.Loss), append(out.norms, report.Norm)
	}
	for _, x := range r.Tensors() {
		a, err := r.Read(x)
		if err != nil {
			return nil, err
		}
		out.state = append(out.state, a.Bytes())
	}
	for d := range s.Devices() {
		out.taken = append(out.taken, r.Allocated(d))
	}
	return out, nil
}

// TestPack: buffers that are alive at the same time never share memory, and what they need together is not
// less than what is alive at any time.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &tape{}
		for i := range rapid.IntRange(0, 40).Draw(t, "buffers") {
			first := rapid.IntRange(0, 20).Draw(t, "first")
			b := buffer{key: bufferKey{kind: valueBuffer, value: i},
				t:     bytesType(rapid.IntRange(0, 500).Draw(t, "bytes")),
				first: first, last: first + rapid.IntRange(0, 9).Draw(t, "length")}
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				b.held = b.last + rapid.IntRange(0, 5).Draw(t, "held")
			}
			if rapid.IntRange(0, 6).Draw(t, "kind") == 0 {
				b.key.kind = weightBuffer
			}
			x.buffers = append(x.buffers, b)
		}
		x.pack()
		if err := x.overlap(); err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 40 {
			most = max(most, x.live(i))
		}
		if x.slab < most {
			t.Fatalf("%d bytes are alive at once, the slab has %d", most, x.slab)
		}
	})
}

// TestPacked: the same of tapes of real steps.
func TestPacked(t *testing.T) {
	for _, x := range samples {
		for _, tape := range x.step(t).tapes {
			if err := tape.overlap(); err != nil {
				t.Errorf("%+v: %v", x, err)
			}
		}
	}
}

// overlap returns an error if two buffers share memory while both are needed.
func (t *tape) overlap() error {
	for i := range t.buffers {
		for j := range t.buffers[:i] {
			a, b := &t.buffers[i], &t.buffers[j]
			if !a.inSlab() || !b.inSlab() || a.bytes() == 0 || b.bytes() == 0 {
				continue
			}
			apart := a.offset+a.bytes() <= b.offset || b.offset+b.bytes() <= a.offset
			if until := func(b *buffer) int { return max(b.last, b.held) }; !apart && a.first <= until(b) &&
				b.first <= until(a) {
				return fmt.Errorf("buffers %d and %d share memory: %+v and %+v", j, i, *b, *a)
			}
		}
		if b := &t.buffers[i]; b.inSlab() && b.offset+b.bytes() > t.slab {
			return fmt.Errorf("buffer %d ends behind the slab", i)
		}
	}
	return nil
}

// TestMatch: a step that is planned well meets; one mistake in one device's tape is found without running,
// and named.
func TestMatch(t *testing.T) {
	for _, x := range samples {
		if err := x.step(t).match(); err != nil {
			t.Errorf("%+v: %v", x, err)
		}
	}
	pipe := sample{2, 2, 4, "1f1b", 1}
	for name, broken := range map[string]struct {
		spoil func(s *Plan)
		want  string
	}{
		"a message is not sent": {func(s *Plan) { s.tapes[0].drop(t, send) },
			"deadlock: nobody can go on: "},
		"nobody receives": {func(s *Plan) { s.tapes[2].drop(t, receive) }, "deadlock"},
		"a tag is wrong": {func(s *Plan) { s.tapes[0].code[s.tapes[0].first(t, send)].tag++ },
			"deadlock"},
		"the wrong peer": {func(s *Plan) { s.tapes[0].code[s.tapes[0].first(t, send)].peer = 3 },
			"deadlock"},
		"one device's update is left out": {func(s *Plan) {
			s.tapes[1].code = s.tapes[1].code[:len(
				s.tapes[1].code)-1]
		}, "deadlock"},
		"both wait before they send": {func(s *Plan) { s.tapes[0].late(t); s.tapes[2].late(t) }, "deadlock"},
	} {
		t.Run(name, func(t *testing.T) {
			s := pipe.step(t)
			broken.spoil(s)
			if err := s.match(); err == nil || !strings.Contains(err.Error(), broken.want) {
				t.Errorf("got %v, want %q", err, broken.want)
			}
		})
	}
}

// TestMatchNames: collectives of different kinds that would meet are told with both places.
func TestMatchNames(t *testing.T) {
	s, other := sample{1, 2, 1, "1f1b", 0}.step(t), sample{1, 2, 1, "1f1b", 3}.step(t)
	s.tapes[1] = other.tapes[1] // it gathers its weights before anything else
	err := s.match()
	if err == nil || !strings.Contains(err.Error(), "devices 0 and 1 do not meet: ") ||
		!strings.Contains(err.Error(), "all_gather") {
		t.Errorf("got %v", err)
	}
}

func (t *tape) first(test *testing.T, k instructionKind) int {
	test.Helper()
	i := slices.IndexFunc(t.code, func(in instruction) bool { return in.kind == k })
	if i < 0 {
		test.Fatalf("device %d has no such instruction", t.device)
	}
	return i
}

func (t *tape) drop(test *testing.T, k instructionKind) {
	i := t.first(test, k)
	t.code = slices.Delete(t.code, i, i+1)
}

// late moves the first receive of a tape before its first send.
func (t *tape) late(test *testing.T) {
	from, to := t.first(test, receive), t.first(test, send)
	if from < to {
		return
	}
	in := t.code[from]
	t.code = slices.Insert(slices.Delete(t.code, from, from+1), to, in)
}
