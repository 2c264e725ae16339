package checkpoint

import (
	"context"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// TestAnyLayout saves tensors under one layout and reads them under another.
func TestAnyLayout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		sub := must(os.MkdirTemp(dir, "run"))
		defer os.RemoveAll(sub)
		s := State{}
		var wholes []array.Array
		for i := range rapid.IntRange(0, 3).Draw(rt, "tensors") {
			shape := drawShape(rt)
			a := fillRandom(array.New(rapid.SampledFrom(array.DTypes()).Draw(rt, "dtype"), shape...), uint64(i))
			l := drawLayout(rt, "from", shape)
			wholes = append(wholes, a)
			s.Tensors = append(s.Tensors, must(Sharded(string(rune('a'+i)), l, scatter(l, a))))
		}
		k := must(NewKeeper(Config{Dir: sub}))
		if err := k.Save(context.Background(), s); err != nil {
			rt.Fatal(err)
		}
		if err := k.Close(); err != nil {
			rt.Fatal(err)
		}
		r, err := Open(sub, OpenConfig{Verify: rapid.SampledFrom([]Verify{VerifyAtOpen, VerifyAtRead}).Draw(rt,
			"verify")})
		if err != nil {
			rt.Fatal(err)
		}
		defer r.Close()
		for i, a := range wholes {
			l := drawLayout(rt, "to", a.Shape())
			parts, err := r.ReadLayout(s.Tensors[i].Name, l)
			if err != nil {
				rt.Fatal(err)
			}
			for device, want := range scatter(l, a) {
				if !same(parts[device], want) {
					rt.Fatalf("%v, device %d: got %v, want %v", l.Spec(), device, parts[device], want)
				}
			}
		}
	})
}

// TestLargeRuns reads boxes whose stretches are longer than a window's and shorter, in one tensor.
func TestLargeRuns(t *testing.T) {
	dir := t.TempDir()
	a := fillRandom(array.New(array.F32, 300, 5000), 3)
	l := must(must(mesh.ParseSpec("@[_,x]")).Layout(must(mesh.Parse("x=3")), a.Shape()))
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, State{Tensors: []Tensor{must(Sharded("a", l, scatter(l, a)))}})
	r := openGood(t, dir)
	for _, b := range []mesh.Box{boxOf(a.Shape()), {Start: []int{3, 10}, Size: []int{290, 4900}},
		{Start: []int{0, 1600}, Size: []int{300, 100}},
		{Start: []int{7, 0}, Size: []int{1, 1}}, {Start: []int{300, 0}, Size: []int{0, 5000}}} {
		got, err := r.Read("a", b)
		if err != nil {
			t.Fatal(err)
		}
		if !same(got, cut(a, b)) {
			t.Errorf("%v: wrong elements", b)
		}
	}
}

// TestReadWhileRemoved reads from a checkpoint after the Keeper has removed it.
func TestReadWhileRemoved(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Keep: 1})
	save(t, k, sample(1))
	r, err := Open(dir, OpenConfig{Verify: VerifyAtRead})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	save(t, k, sample(2))
	if got := names(t, dir); len(got) != 1 {
		t.Fatalf("got %v, want one", got)
	}
	checkSample(t, r)
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	list := []safetensors.Named{{Name: "model.w", Array: array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)},
		{Name: "adam.w", Array: array.Scalar(int64(3))}, {Name: "model.b", Array: array.New(array.BF16, 0, 4)}}
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, Wholes(Meta{Scalars: []Scalar{Text("note", "x")}}, list, 2))
	r := openGood(t, dir)
	var got []safetensors.Named
	for n, err := range r.Wholes("model.") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if len(got) != 2 || got[0].Name != "w" || got[1].Name != "b" || !same(got[0].Array, list[0].Array) ||
		!same(got[1].Array, list[2].Array) {
		t.Errorf("got %v", got)
	}
	src := r.Source("model.")
	if names := src.Names(); !slices.Equal(names, []string{"w", "b"}) || src.Metadata()["note"] != "x" {
		t.Errorf("got %v %v", names, src.Metadata())
	}
	if a, err := src.ReadRange("w", 1, 2); err != nil || !same(a, list[0].Array.Rows(1, 2)) {
		t.Errorf("got %v %v", a, err)
	}
	_, err := src.ReadRange("w", 1, 4)
	wantError(t, err, "rows out of range: got 1 to 4 of f32[3,2]")
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(1))
	r := openGood(t, dir)
	_, err := r.ReadWhole("z")
	wantError(t, err, `no tensor "z" among 5`)
	_, err = r.Read("a", mesh.Box{Start: []int{0, 0}, Size: []int{8, 1}})
	wantError(t, err, "want a place in [7,9]")
	wantError(t, r.ReadInto(array.New(array.F64, 7, 9), "a", boxOf([]int{7, 9})), "into f64[7,9], want f32[7,9]")
	_, err = r.Meta().Int("loss_scale")
	wantError(t, err, `scalar "loss_scale": got type float, want int`)
	_, err = r.Meta().Counter("noise")
	wantError(t, err, `no random stream "noise"`)
	if v, err := r.Meta().Float("loss_scale"); v != 65536 || err != nil {
		t.Errorf("got %v %v", v, err)
	}
	if v, err := r.Meta().Counter("dropout"); v != 1000 || err != nil {
		t.Errorf("got %v %v", v, err)
	}
	l := must(must(mesh.ParseSpec("@[_,_]+{x}")).Layout(must(mesh.Parse("x=2")), []int{7, 9}))
	_, err = r.ReadLayout("a", l)
	wantError(t, err, "no partial axes")
	if got, want := r.String(), "step-00000001: 5 tensors, 1016 bytes of devices [0 1 2 3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if tensors := r.Tensors(); len(tensors) != 5 || len(tensors[1].Parts) != 4 {
		t.Errorf("got %v", tensors)
	}
}
