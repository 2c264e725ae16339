package offload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func types(sizes ...int) []ir.Type {
	list := make([]ir.Type, len(sizes))
	for i, n := range sizes {
		list[i] = ir.Type{DType: array.DTypes()[i%len(array.DTypes())], Shape: array.Shape{n, 3}}
	}
	return list
}

func random(t ir.Type, seed uint64) array.Array {
	a := array.New(t.DType, t.Shape...)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.Uint32() & 1)
	}
	return a
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\n want %q in it", err, want)
	}
}

// stores returns each kind of store, made anew.
func stores(t *rapid.T, dir string, list []ir.Type) Store {
	if rapid.Bool().Draw(t, "disk") {
		return must(NewDisk(DiskConfig{Dir: dir, Types: list}))
	}
	return must(NewHost(list))
}

// TestAnyOrder holds a store against a slice, in any order of puts and gets.
func TestAnyOrder(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		list := types(rapid.SliceOfN(rapid.SampledFrom([]int{3, 0, 1, 2000, 700}), 1, 9).Draw(rt, "sizes")...)
		s := stores(rt, dir, list)
		defer s.Close()
		want := make([]array.Array, len(list))
		for i, typ := range list {
			want[i] = array.New(typ.DType, typ.Shape...)
		}
		at := 0
		for n := range rapid.IntRange(1, 30).Draw(rt, "calls") {
			i := rapid.SampledFrom([]int{at % len(list), rapid.IntRange(0, len(list)-1).Draw(rt, "tensor")}).Draw(rt,
				"in order or not")
			if rapid.Bool().Draw(rt, "put") {
				want[i] = random(list[i], uint64(n))
				if err := s.Put(i, want[i]); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			got := random(list[i], 99)
			if err := s.Get(i, got); err != nil {
				rt.Fatal(err)
			}
			if string(got.Bytes()) != string(want[i].Bytes()) {
				rt.Fatalf("call %d: tensor %d: got %v, want %v", n, i, got, want[i])
			}
			at = i + 1
		}
	})
}

// TestOptimizer is what the store is for: several passes over pairs of tensors, on two devices side by side.
func TestOptimizer(t *testing.T) {
	dir := t.TempDir()
	list := make([]ir.Type, 12)
	for i := range list {
		list[i] = ir.Type{DType: array.F32, Shape: array.Shape{1000 * (i + 1)}}
	}
	var wg sync.WaitGroup
	for device := range 2 {
		wg.Go(func() {
			s := must(NewDisk(DiskConfig{Dir: dir, Types: list}))
			defer s.Close()
			for step := range 3 {
				for i := 0; i < len(list); i += 2 {
					m, v := array.New(array.F32, list[i].Shape...), array.New(array.F32, list[i+1].Shape...)
					if err := errors.Join(s.Get(i, m), s.Get(i+1, v)); err != nil {
						t.Error(err)
					}
					for k, a := range []array.Array{m, v} {
						if x := a.At(a.Len() - 1); x != float64(step*(i+k+device)) {
							t.Errorf("device %d, step %d, tensor %d: got %v", device, step, i+k, x)
						}
						a.Set(a.Len()-1, float64((step+1)*(i+k+device)))
					}
					if err := errors.Join(s.Put(i, m), s.Put(i+1, v)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if left := must(os.ReadDir(dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestErrors(t *testing.T) {
	list := types(4, 5)
	for _, s := range []Store{must(NewHost(list)),
		must(NewDisk(DiskConfig{Dir: filepath.Join(t.TempDir(), "new"), Types: list}))} {
		wantError(t, s.Put(2, random(list[0], 1)), "put: got tensor 2, want one of 2")
		wantError(t, s.Get(-1, random(list[0], 1)), "get: got tensor -1")
		wantError(t, s.Put(1, random(list[0], 1)), "put: tensor 1: got f64[4,3], want f32[5,3]")
		wantError(t, s.Get(0, array.Array{}), "want f64[4,3]")
		if s.Bytes() < list[0].Bytes()+list[1].Bytes() {
			t.Errorf("%T: got %d bytes", s, s.Bytes())
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		wantError(t, s.Put(0, random(list[0], 1)), "is closed")
		wantError(t, s.Get(0, random(list[0], 1)), "is closed")
	}
	_, err := NewHost([]ir.Type{{}})
	wantError(t, err, "tensor 0: got")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = NewDisk(DiskConfig{Dir: file, Types: list})
	wantError(t, err, "offload: mkdir")
}

// TestTooLarge asks for more than any disk has.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	_, err := NewDisk(DiskConfig{Dir: dir, Types: []ir.Type{{DType: array.U8, Shape: array.Shape{1 << 55}}}})
	wantError(t, err, fmt.Sprintf("room for %d bytes", 1<<55))
	if left := must(os.ReadDir(dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// failing is a file on a disk that is full and cannot be read.
type failing struct{ backing }

func (failing) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }
func (failing) ReadAt([]byte, int64) (int, error)  { return 0, syscall.EIO }

func TestFullDisk(t *testing.T) {
	list := types(4, 5, 6)
	d := must(NewDisk(DiskConfig{Dir: t.TempDir(), Types: list}))
	defer d.Close()
	a := random(list[0], 1)
	if err := errors.Join(d.Put(0, a), d.Get(0, a)); err != nil {
		t.Fatal(err)
	}
	<-d.ahead.done
	whole := d.file
	d.file = failing{whole}
	err := d.Put(0, a)
	wantError(t, err,
		"put of tensor 0: no space left on device: make room, or offload to another directory or to host memory")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	wantError(t, d.Get(2, random(list[2], 1)), "get of tensor 2: input/output error")

	// A failed look ahead is not an answer.
	if err := d.Get(1, random(list[1], 1)); err != nil {
		t.Fatal(err)
	}
	<-d.ahead.done
	d.file = whole
	if err := d.Get(2, random(list[2], 1)); err != nil {
		t.Error(err)
	}
}

func BenchmarkDisk(b *testing.B) {
	list := make([]ir.Type, 8)
	for i := range list {
		list[i] = ir.Type{DType: array.F32, Shape: array.Shape{1 << 20}}
	}
	d := must(NewDisk(DiskConfig{Dir: b.TempDir(), Types: list}))
	defer d.Close()
	a := array.New(array.F32, 1<<20)
	b.SetBytes(2 * 8 * 4 << 20)
	for b.Loop() {
		for i := range list {
			if err := errors.Join(d.Get(i, a), d.Put(i, a)); err != nil {
				b.Fatal(err)
			}
		}
	}
}
