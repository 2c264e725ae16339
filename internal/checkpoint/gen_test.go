package checkpoint

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fillRandom gives a every bit pattern that its type may have.
func fillRandom(a array.Array, seed uint64) array.Array {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.Uint32())
		if a.DType() == array.Bool {
			a.Bytes()[i] &= 1
		}
	}
	return a
}

// cut returns a box of a, taken element by element: the plainest way there is.
func cut(a array.Array, b mesh.Box) array.Array {
	out := array.New(a.DType(), b.Size...)
	size, strides := a.DType().Size(), a.Shape().Strides()
	index := make([]int, len(b.Size))
	for i := range out.Len() {
		rest, at := i, 0
		for d := len(index) - 1; d >= 0; d-- {
			at += (b.Start[d] + rest%b.Size[d]) * strides[d]
			rest /= b.Size[d]
		}
		copy(out.Bytes()[i*size:(i+1)*size], a.Bytes()[at*size:])
	}
	return out
}

func drawMesh(t *rapid.T, label string) *mesh.Mesh {
	axes, n := make([]mesh.Axis, rapid.IntRange(0, 3).Draw(t, label+" axes")), 1
	for i := range axes {
		axes[i] = mesh.Axis{Name: string(rune('x' + i)),
			Size: rapid.SampledFrom([]int{2, 3, 1, 4}).Draw(t, label+" size")}
		n *= axes[i].Size
	}
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i * 3 / 2
	}
	return must(mesh.New(axes, rapid.Permutation(ids).Draw(t, label+" devices")...))
}

// drawLayout lays a shape on a random mesh, each axis, or half of one, on a random dim or on none.
func drawLayout(t *rapid.T, label string, shape []int) *mesh.Layout {
	m := drawMesh(t, label)
	s := mesh.Whole(len(shape))
	var parts mesh.Axes
	for _, a := range m.Axes() {
		if a.Size == 4 && rapid.Bool().Draw(t, label+" halves") {
			parts = append(parts, must(m.Sub(a.Name, 1, 2)), must(m.Sub(a.Name, 2, 2)))
		} else {
			parts = append(parts, mesh.On(a.Name)...)
		}
	}
	for _, p := range rapid.Permutation(parts).Draw(t, label+" order") {
		if d := rapid.IntRange(-1, len(shape)-1).Draw(t, label+" dim"); d >= 0 {
			s.Dims[d] = append(s.Dims[d], p)
		}
	}
	return must(s.Layout(m, shape))
}

func drawShape(t *rapid.T) []int {
	shape := make([]int, rapid.IntRange(0, 4).Draw(t, "rank"))
	for d := range shape {
		shape[d] = rapid.SampledFrom([]int{5, 4, 8, 6, 7, 3, 1, 0, 12}).Draw(t, "dim")
	}
	return shape
}

func scatter(l *mesh.Layout, a array.Array) map[int]array.Array {
	parts := map[int]array.Array{}
	for device, box := range l.Boxes() {
		parts[device] = cut(a, box)
	}
	return parts
}

func same(a, b array.Array) bool {
	return a.DType() == b.DType() && a.Shape().Equal(b.Shape()) && string(a.Bytes()) == string(b.Bytes())
}

// sample returns a small state whose content follows from the step.
func sample(step int64) State {
	m := must(mesh.Parse("dp=2,tp=2"))
	s := State{Meta: Meta{Step: step, Sample: 32 * step, Seed: 1<<63 + 7,
		RNG:     []Counter{{"dropout", uint64(step) * 1000}},
		Scalars: []Scalar{Float("loss_scale", 65536), Int("good_steps", step), Text("schedule", "cosine <a>")}}}
	for i, spec := range []string{"@[tp,_]", "@[_,dp.tp]", "@[_,_]", "@[dp,tp]"} {
		l := must(must(mesh.ParseSpec(spec)).Layout(m, []int{7, 9}))
		a := fillRandom(array.New(array.F32, 7, 9), uint64(step)*10+uint64(i))
		s.Tensors = append(s.Tensors, must(Sharded(string(rune('a'+i)), l, scatter(l, a))))
	}
	s.Tensors = append(s.Tensors, Whole("count", array.Scalar(step)))
	return s
}

// checkSample reads all of a checkpoint and holds it against sample.
func checkSample(t testing.TB, r *Reader) {
	t.Helper()
	step := r.Meta().Step
	want := sample(step)
	if got := r.Meta(); got.Sample != want.Sample || got.Seed != want.Seed || len(got.Scalars) != 3 ||
		got.Scalars[2] != want.Scalars[2] ||
		got.RNG[0] != want.RNG[0] {
		t.Errorf("step %d: got %+v, want %+v", step, got, want.Meta)
	}
	for _, tensor := range want.Tensors {
		for _, p := range tensor.Parts {
			a, err := r.Read(tensor.Name, p.Box)
			if err != nil {
				t.Fatal(err)
			}
			if !same(a, p.Data) {
				t.Fatalf("step %d: %q%v: got %v, want %v", step, tensor.Name, p.Box, a, p.Data)
			}
		}
	}
}
