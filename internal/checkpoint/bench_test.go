package checkpoint

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// benchState returns 64 MiB on four devices.
func benchState() State {
	var list []safetensors.Named
	for i := range 16 {
		list = append(list, safetensors.Named{Name: string(rune('a' + i)), Array: fillRandom(array.New(array.F32,
			1024, 1024), uint64(i))})
	}
	return Wholes(Meta{}, list, 4)
}

// BenchmarkSave is a save to its end.
func BenchmarkSave(b *testing.B) {
	k := newKeeper(b, Config{Dir: b.TempDir(), Keep: 1})
	s := benchState()
	b.SetBytes(64 << 20)
	for b.Loop() {
		s.Step++
		save(b, k, s)
	}
}

// BenchmarkSnapshot is what a save does before its caller continues.
func BenchmarkSnapshot(b *testing.B) {
	s := benchState()
	b.SetBytes(64 << 20)
	var buffers []array.Array
	for b.Loop() {
		buffers = must(must(newPlan(s)).snapshot(buffers))
	}
}

// BenchmarkShare is a snapshot of a small model's state, 60 tensors of 1.4 MB in all, in memory that outlives
// the process.
func BenchmarkShare(b *testing.B) {
	var list []safetensors.Named
	for i := range 60 {
		list = append(list, safetensors.Named{Name: fmt.Sprintf("layers.%d.attention.weight", i),
			Array: fillRandom(array.New(array.F32, 64, 91), uint64(i))})
	}
	s := Wholes(Meta{}, list, 1)
	at := Places{Host: []string{"a"}, Process: func(int) int { return 0 }}
	w := must(NewSnapshots(SnapshotConfig{Dir: filepath.Join("/dev/shm", "galley"+rand.Text()), Places: at}, s))
	defer os.RemoveAll(w.c.Dir)
	b.SetBytes(60 * 64 * 91 * 4)
	for b.Loop() {
		s.Step++
		must(w.Write(s))
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	save(b, newKeeper(b, Config{Dir: dir}), benchState())
	b.SetBytes(64 << 20)
	for b.Loop() {
		must(Open(dir, OpenConfig{})).Close()
	}
}

// BenchmarkRead reads quarters of columns, the worst way to split what was saved whole.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	save(b, newKeeper(b, Config{Dir: dir}), benchState())
	r := openGood(b, dir)
	box := boxOf([]int{1024, 256})
	dst := array.New(array.F32, 1024, 256)
	b.SetBytes(64 << 20)
	for b.Loop() {
		for i := range 16 {
			for q := range 4 {
				box.Start[1] = 256 * q
				if err := r.ReadInto(dst, string(rune('a'+i)), box); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// wide returns the state of a large model on 64 devices, each tensor cut in 64, with no more data than
// needed.
func wide() State {
	l := must(must(mesh.ParseSpec("@[x,y]")).Layout(must(mesh.Parse("x=8,y=8")), []int{8, 8}))
	parts := scatter(l, array.New(array.F32, 8, 8))
	var s State
	for i := range 1000 {
		s.Tensors = append(s.Tensors, must(Sharded(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), l,
			parts)))
	}
	return s
}

func BenchmarkPlan(b *testing.B) {
	s := wide()
	for b.Loop() {
		must(newPlan(s))
	}
}

func BenchmarkEncode(b *testing.B) {
	m := must(newPlan(wide())).manifest
	for b.Loop() {
		must(m.encode())
	}
}

func BenchmarkParse(b *testing.B) {
	m := must(newPlan(wide())).manifest
	text := must(m.encode())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		must(parseManifest(text))
	}
}
