package checkpoint

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// small returns a state that fits a page.
func small() State {
	l := must(must(mesh.ParseSpec("@[x,_]")).Layout(must(mesh.Parse("x=2")), []int{3, 2}))
	a := array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	return State{
		Meta: Meta{Step: 12, Sample: 3072, Seed: math.MaxUint64, RNG: []Counter{{"dropout", 99}},
			Scalars: []Scalar{Float("loss_scale", math.Inf(1)), Text("schedule", "cosine")}},
		Tensors: []Tensor{must(Sharded("w", l, scatter(l, a))), Whole("count", array.Scalar(int64(7)))},
	}
}

const smallText = `{
 "format": "galley checkpoint",
 "version": 1,
 "step": 12,
 "sample": 3072,
 "seed": "18446744073709551615",
 "rng": [
  {"name":"dropout","counter":"99"}
 ],
 "scalars": [
  {"name":"loss_scale","type":"float","value":"+Inf"},
  {"name":"schedule","type":"text","value":"cosine"}
 ],
 "files": [
  {"name":"device-00000.safetensors","device":0,"bytes":0,"checksum":""},
  {"name":"device-00001.safetensors","device":1,"bytes":0,"checksum":""}
 ],
 "tensors": [
  {"name":"w","dtype":"f32","shape":[3,2],"parts":[
   {"start":[0,0],"size":[2,2],"file":"device-00000.safetensors","key":"w[0:2,0:2]"},
   {"start":[2,0],"size":[1,2],"file":"device-00001.safetensors","key":"w[2:3,0:2]"}]},
  {"name":"count","dtype":"i64","shape":[],"parts":[
   {"start":[],"size":[],"file":"device-00000.safetensors","key":"count"}]}
 ],
 "checksum": "crc32c:SUM"
}
`

func encoded(t testing.TB, m manifest) []byte {
	t.Helper()
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestManifestText(t *testing.T) {
	m := must(newPlan(small())).manifest
	text := encoded(t, m)
	before, sum, _ := strings.Cut(smallText, "SUM")
	if got := string(text); !strings.HasPrefix(got, before) || len(got) != len(before)+8+len(sum) {
		t.Errorf("got\n%s\nwant\n%s", got, smallText)
	}
	again, err := parseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := again.meta().Float("loss_scale"); !math.IsInf(v, 1) || err != nil {
		t.Errorf("got %v %v", v, err)
	}
	if !bytes.Equal(encoded(t, *again), text) {
		t.Error("read and written again it differs")
	}
}

// TestDeterministic writes the same whatever the order in which devices are listed.
func TestDeterministic(t *testing.T) {
	want := encoded(t, must(newPlan(sample(3))).manifest)
	for range 20 {
		s := sample(3)
		for _, tensor := range s.Tensors {
			rand.Shuffle(len(tensor.Parts), func(i, j int) {
				tensor.Parts[i], tensor.Parts[j] = tensor.Parts[j],
					tensor.Parts[i]
			})
		}
		if got := encoded(t, must(newPlan(s)).manifest); !bytes.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestDocumented holds the manifest on the page against the one that is written.
func TestDocumented(t *testing.T) {
	s := small()
	s.Seed, s.Scalars = 42, []Scalar{Float("loss_scale", 65536)}
	dir := t.TempDir()
	save(t, newKeeper(t, Config{Dir: dir}), s)
	text := string(must(os.ReadFile(filepath.Join(dir, "step-00000012", manifestName))))
	page := string(must(os.ReadFile("../../docs/checkpoints.md")))
	if !strings.Contains(page, "```json\n"+text+"```\n") {
		t.Errorf("docs/checkpoints.md does not show\n%s", text)
	}
}

// TestManifestRefused changes a good manifest and gives it a right checksum: what is said must still make
// sense.
func TestManifestRefused(t *testing.T) {
	for _, c := range []struct {
		change func(m *manifest)
		want   string
	}{
		{func(m *manifest) { m.Version = 2 }, "version: got 2, want 1"},
		{func(m *manifest) { m.Format = "x" }, `format: got "x"`},
		{func(m *manifest) { m.Step = -1 }, "got step -1"},
		{func(m *manifest) { m.Files[0].Name = "../../etc/passwd" }, `want "device-00000.safetensors"`},
		{func(m *manifest) { m.Files[1].Device = 0 }, "want rising numbers"},
		{func(m *manifest) { m.Files[1].Bytes = -1 }, "bytes: got -1"},
		{func(m *manifest) { m.Files = m.Files[:1] }, "no file"},
		{func(m *manifest) { m.Tensors[1].Name = "w" }, `two tensors named "w"`},
		{func(m *manifest) { m.Tensors[0].Shape = array.Shape{3, -2} }, "type: got f32[3,-2]"},
		{func(m *manifest) { m.Tensors[0].Shape = array.Shape{1 << 40, 1 << 40} }, "type: got f32["},
		{func(m *manifest) { m.Tensors[0].Shape = array.Shape{0, 2} }, "box"},
		{func(m *manifest) { m.Tensors[0].Parts = m.Tensors[0].Parts[:1] }, "do not cover"},
		{func(m *manifest) { m.Tensors[0].Parts[1].Start[0] = 1 }, "do not cover"},
		{func(m *manifest) { m.Tensors[0].Parts[1].Start[0] = math.MaxInt }, "want a place in [3,2]"},
		{func(m *manifest) { m.Tensors[0].Parts[1].Size = nil }, "want a place in [3,2]"},
		{func(m *manifest) { m.Tensors[0].Parts[1].Size[1] = 0 }, "got an empty one"},
		{func(m *manifest) { m.Tensors[1].Parts[0].Key = "w[0:2,0:2]" }, "is there twice"},
		{func(m *manifest) { m.Tensors[1].Parts = nil }, "the whole tensor is there 0 times"},
	} {
		m := must(newPlan(small())).manifest
		c.change(&m)
		_, err := parseManifest(encoded(t, m))
		wantError(t, err, c.want)
	}
	text := string(encoded(t, must(newPlan(small())).manifest))
	for from, to := range map[string]string{`"step": 12`: `"step": 13`,
		`"version": 1,`: "\"version\": 1,\n \"extra\": 1,", "\n}\n": "\n}\n{}"} {
		if _, err := parseManifest([]byte(strings.Replace(text, from, to, 1))); err == nil {
			t.Errorf("%q as %q: got no error", from, to)
		}
	}
}

// TestTiling holds checkTiling against counting.
func TestTiling(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shape := make([]int, rapid.IntRange(1, 3).Draw(rt, "rank"))
		for d := range shape {
			shape[d] = rapid.IntRange(1, 3).Draw(rt, "dim")
		}
		var boxes []mesh.Box
		for _, p := range drawLayout(rt, "layout", shape).Pieces() {
			boxes = append(boxes, p.Box)
		}
		for range rapid.IntRange(0, 2).Draw(rt, "changes") {
			b := mesh.Box{}
			for _, n := range shape {
				start := rapid.IntRange(0, n-1).Draw(rt, "start")
				b.Start, b.Size = append(b.Start, start), append(b.Size, rapid.IntRange(1, n-start).Draw(rt, "size"))
			}
			boxes[rapid.IntRange(0, len(boxes)-1).Draw(rt, "which")] = b
		}
		want := true
		for i := range array.Shape(shape).Len() {
			at := mesh.Box{Start: make([]int, len(shape)), Size: make([]int, len(shape))}
			for d := len(shape) - 1; d >= 0; d-- {
				at.Start[d], at.Size[d] = i%shape[d], 1
				i /= shape[d]
			}
			n := 0
			for _, b := range boxes {
				if _, ok := b.Intersect(at); ok {
					n++
				}
			}
			want = want && n == 1
		}
		if err := checkTiling(shape, boxes); (err == nil) != want {
			rt.Fatalf("%v in %v: got %v, want tiled: %v", boxes, shape, err, want)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(encoded(f, must(newPlan(small())).manifest))
	f.Add(encoded(f, must(newPlan(State{})).manifest))
	f.Add(encoded(f, must(newPlan(sample(3))).manifest))
	f.Add([]byte(smallText))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		if err != nil {
			// Almost no change keeps the checksum, so what it guards is fuzzed without it, too.
			if m, err = parseUnguarded(text); err != nil {
				return
			}
		} else if !bytes.Equal(encoded(t, *m), text) {
			t.Fatal("two texts of one manifest")
		}
		for _, e := range m.Tensors {
			n := 0
			for _, p := range e.Parts {
				n += p.box().Len()
			}
			if n != e.Shape.Len() {
				t.Fatalf("%q: parts of %d elements tile %v", e.Name, n, e.Shape)
			}
		}
	})
}

// parseUnguarded reads a manifest as if its checksum were right.
func parseUnguarded(text []byte) (*manifest, error) {
	m, err := decodeManifest(text)
	if err != nil {
		return nil, err
	}
	return m, m.check()
}
