package data_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
)

func TestLoaderDealsEachSampleOnceAnEpoch(t *testing.T) {
	ds, err := data.Rows(array.FromSlice([]int32{0, 1, 2, 3, 4, 5, 6}, 7),
		array.FromSlice([]int32{0, 10, 20, 30, 40, 50, 60}, 7))
	if err != nil {
		t.Fatal(err)
	}
	l, err := data.NewLoader(ds, data.LoaderConfig{Batch: 3, Seed: 5, Tail: data.Keep})
	if err != nil {
		t.Fatal(err)
	}
	var orders [][]int32
	for epoch := range 2 {
		var seen []int32
		for i := range l.Len() {
			b, err := l.Batch(epoch*l.Len() + i)
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range array.Data[int32](b[0]) {
				if array.Data[int32](b[1])[k] != 10*x {
					t.Fatalf("sample %d came with label %d", x, array.Data[int32](b[1])[k])
				}
			}
			seen = append(seen, array.Data[int32](b[0])...)
		}
		orders = append(orders, slices.Clone(seen))
		slices.Sort(seen)
		if !slices.Equal(seen, []int32{0, 1, 2, 3, 4, 5, 6}) {
			t.Fatalf("epoch %d dealt %v", epoch, seen)
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Errorf("both epochs came as %v", orders[0])
	}
}

func TestLoaderRefuses(t *testing.T) {
	ds, _ := data.Rows(array.New(array.F32, 4, 2))
	for want, c := range map[string]data.LoaderConfig{
		"batch: got 0": {}, "want batch=4 or less": {Batch: 5},
	} {
		if _, err := data.NewLoader(ds, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
	if _, err := data.Rows(array.New(array.F32, 4), array.New(array.F32, 3)); err == nil {
		t.Error("rows of two lengths were taken")
	}
}

func TestTokensShiftLabels(t *testing.T) {
	s, err := data.NewSampler([]int32{1, 2, 3, 4, 5, 6, 7},
		data.SamplerConfig{Batch: 2, Seq: 3, Order: data.Sequential})
	if err != nil {
		t.Fatal(err)
	}
	b, err := data.Tokens(s).Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := array.Data[int32](b[0]), array.Data[int32](b[1]); !slices.Equal(x, []int32{1, 2, 3, 4, 5, 6}) ||
		!slices.Equal(y, []int32{2, 3, 4, 5, 6, 7}) {
		t.Errorf("got %v and %v", x, y)
	}
}

// TestParts: a part of a batch has the batch's own rows, and nothing in the others.
func TestParts(t *testing.T) {
	ids := make([]int32, 500)
	for i := range ids {
		ids[i] = int32(i + 1)
	}
	s, err := data.NewSampler(ids, data.SamplerConfig{Batch: 4, Seq: 6, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := data.Rows(array.FromSlice(ids, 50, 10))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := data.NewLoader(ds, data.LoaderConfig{Batch: 4, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	windows, err := data.Windows(data.InMemory(ids), 6)
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := data.NewMixture([]data.MixtureSource{{Name: "ids", Weight: 1, Rows: windows}},
		data.MixtureConfig{Batch: 4, Seq: 6, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	type part func(i int, own func(int) bool) ([]array.Array, error)
	for name, l := range map[string]part{
		"loader": rows.Part, "tokens": data.Tokens(s).Part,
		"mixture": func(i int, own func(int) bool) ([]array.Array, error) { return mixed.Part(int64(4*i), own) },
	} {
		whole, err := l(3, func(int) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		part, err := l(3, func(row int) bool { return row == 2 })
		if err != nil || len(part) != len(whole) {
			t.Fatalf("%s: got %d tensors and %v", name, len(part), err)
		}
		for k := range part {
			for row := range 4 {
				got, want := part[k].Rows(row, row+1), whole[k].Rows(row, row+1)
				if row != 2 {
					want = array.New(array.I32, got.Shape()...)
				}
				if !slices.Equal(got.Bytes(), want.Bytes()) {
					t.Errorf("%s: row %d of tensor %d: got %v, want %v", name, row, k, got, want)
				}
			}
		}
		if none, err := l(3, func(int) bool { return false }); err != nil || len(none) != len(whole) {
			t.Errorf("%s: without rows: got %d tensors and %v", name, len(none), err)
		}
	}
}
